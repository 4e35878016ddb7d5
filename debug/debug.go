// Package debug serves a page that shows the holders and waiters of keys, for
// people and for tools.
//
//	mux.Handle("/debug/guard", debug.Handler(g))
//
// The page is like net/http/pprof, but never mounts itself. Put it where only
// operators can reach it, beside pprof, because it exposes host names and
// process ids. On request it exposes stacks too. Keys are shown as their
// hashes, as in logs and traces, unless [WithKeys] is given. See
// [guard.KeyHash].
//
// A browser on the machine of an operator may also show pages of others. So
// requests of other sites get 403, except links to the page without a query.
// On a loopback address every host but localhost and loopback addresses gets
// 421. A proxy on the same machine must send such a host.
//
// The page shows each key that a call in this process holds or waits for. The
// query can ask for more, at a higher cost:
//
//	?stacks=1     the stack of each function past half of its MaxHold or past the
//	              end of its lease; stops the process for some milliseconds
//	?store=1      the content of the store, of all processes; takes some requests
//	              to it, which disturb nobody
//	?limit=N      how many keys of each kind to show, 1,000 unless told
//	?format=json  the same as JSON, also with an Accept header that asks for it
package debug

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-lockguard/guard"
)

// Option changes one setting of [Handler].
type Option interface{ apply(*handler) }

type optionFunc func(*handler)

func (f optionFunc) apply(h *handler) { f(h) }

// WithKeys shows keys as they are, beside their hashes. Keys may contain data
// of users.
func WithKeys() Option { return optionFunc(func(h *handler) { h.keys = true }) }

const (
	defaultLimit = 1000
	storeLimit   = 5 * time.Second // for all requests to the store
)

type handler struct {
	guard *guard.Guard
	keys  bool
}

// Handler returns a handler that shows g and all guards of its family. A nil g
// is the default guard at the time of the request. The handler answers GET and
// HEAD. It blocks on the store only if the query asks about the store, for at
// most 5 s. It is safe for concurrent use.
func Handler(g *guard.Guard, opts ...Option) http.Handler {
	h := &handler{guard: g}
	for _, o := range opts {
		o.apply(h)
	}
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	if status, reason := foreign(r); reason != "" {
		http.Error(w, reason, status)
		return
	}
	q := r.URL.Query()
	limit, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(defaultLimit)))
	if err != nil || limit < 0 {
		http.Error(w, "limit is no number", http.StatusBadRequest)
		return
	}
	p := h.page(r.Context(), on(q.Get("stacks")), on(q.Get("store")), limit)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	if q.Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(p) // the client has gone
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = html.Execute(w, p)
}

func on(value string) bool {
	yes, _ := strconv.ParseBool(value)
	return yes
}

// page collects the content of the page, the oldest holds first.
func (h *handler) page(ctx context.Context, stacks, store bool, limit int) *page {
	p := &page{At: time.Now(), Stacks: stacks}
	gates := h.guard.Snapshot(stacks)
	slices.SortFunc(gates, func(a, b guard.LocalState) int {
		return cmp.Or(since(a).Compare(since(b)), cmp.Compare(a.Key, b.Key))
	})
	p.Keys = len(gates)
	for _, s := range gates[:min(limit, len(gates))] {
		p.Gates = append(p.Gates, h.gate(s, p.At))
	}
	if store {
		p.Store = h.store(ctx, limit)
	}
	return p
}

// since is when the oldest call came that holds the key. If no call holds it,
// since is when the oldest waiting call came.
func since(s guard.LocalState) time.Time {
	if len(s.Holds) > 0 {
		return s.Holds[0].Since
	}
	return s.Waits[0].Since
}

// name returns the form in which a key is shown.
func (h *handler) name(key string) name {
	n := name{Hash: guard.KeyHash(key)}
	if h.keys {
		n.Key = key
	}
	return n
}

// store asks the store for the keys that it holds.
func (h *handler) store(ctx context.Context, limit int) *storeView {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	v := &storeView{}
	for s, err := range h.guard.List(ctx) {
		if len(v.Keys) >= limit {
			v.More = true
			break
		}
		k := storeKey{name: h.name(s.Key), Waiting: s.Waiting}
		switch {
		case err != nil && s.Key == "":
			v.Error = err.Error()
			continue
		case err != nil:
			k.Error = err.Error()
		case s.Held:
			k.Held, k.Owner, k.Holder, k.Remaining = true, s.Owner, newPeer(s.Holder), seconds(s.Remaining)
			k.Shared, k.Limit, k.Lingers = s.Shared(), s.Limit, s.Lingers
		}
		if s.Record.Size > 0 {
			k.Result = &result{s.Record.Size, seconds(s.Record.Remaining), s.Record.Interrupted}
		}
		for _, o := range s.Owners {
			k.Owners = append(k.Owners, owner{o.Owner, newPeer(o.Holder)})
		}
		for _, w := range s.Waiters {
			k.Waiters = append(k.Waiters, newPeer(w.Holder))
		}
		v.Keys = append(v.Keys, k)
	}
	return v
}
