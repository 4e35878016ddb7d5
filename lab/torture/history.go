package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// visit is the record of one call.
type visit struct {
	*lifetime

	nth          int64 // its number in its life
	key          int
	limit        int  // how many may have the key at once; 0 and 1 mean that it is alone
	cart         bool // one of several keys of a call
	asked, bound int64
	got          int64 // when the wait ended, with the key or without
	token        uint64
	err          string
	has          bool // whether it got the key

	until   int64 // the library trusted the lease until then, as far as known; 0 if it does not tell
	held    int64 // when it was last seen to be held
	lost    int64 // when the holder was told that it was lost
	exit    int64 // when the section was over; 0 if it is not, or its worker was killed first
	closing bool
	wrote   int64
	refused bool
	taken   bool  // its release found that another holder had the key
	freed   int64 // when that was
	probe   *probe
	inner   uint64 // token of a call for the same key inside; 0 if none, or not known
	denied  bool   // whether that call was refused
}

// lifetime is one worker process, as the judge sees it.
type lifetime struct {
	proc, number int
	from, to     int64
	killed       bool
	frozen       []span // times in which it was stopped or felt a stall, without overlaps
	stops        []span // only the times in which it was stopped
	visits       []*visit
	asked        []record // of calls whose result is kept
	closed       *record
}

func (v *visit) id() string { return fmt.Sprintf("%d.%d.%d", v.proc, v.number, v.nth) }

// history is everything that is known of a run.
type history struct {
	lives  []*lifetime
	keys   [][]*visit // visits that got their key, by key, in that order
	byID   map[string]*visit
	log    [][]entry // of the store, by key
	faults []fault

	forgetful []forgetful

	complete bool // whether the run is over
}

func (r *run) history(ctx context.Context, complete bool) (*history, error) {
	h := &history{
		complete: complete, keys: make([][]*visit, r.cfg.keys), byID: map[string]*visit{},
		faults: r.nemesis.happened(),
	}
	for _, f := range h.faults {
		if slices.Contains(kinds[f.Kind].forgets, r.cfg.topology) {
			h.forgetful = append(h.forgetful, newForgetful(f))
		}
	}
	for _, s := range r.nemesis.elected() {
		h.forgetful = append(h.forgetful, newForgetful(fault{span: s}))
	}
	// before the diaries: a write is in them if it is here, or its worker has
	// died
	store := openStore(r.world.store.Addr)
	defer store.close()
	for key := range r.cfg.keys {
		log, err := store.log(ctx, key)
		if err != nil {
			return nil, err
		}
		h.log = append(h.log, log)
	}
	for _, l := range r.crew.all() {
		life, err := readLife(l)
		if err != nil {
			return nil, err
		}
		h.lives = append(h.lives, life)
		for _, v := range life.visits {
			if v.has {
				h.keys[v.key] = append(h.keys[v.key], v)
				h.byID[v.id()] = v
			}
		}
	}
	for _, visits := range h.keys {
		slices.SortFunc(visits, func(a, b *visit) int { return cmp.Compare(a.got, b.got) })
	}
	return h, nil
}

// all returns copies of all lives.
func (c *crew) all() (all []life) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lives {
		all = append(all, life{
			proc: l.proc, number: l.number, diary: l.diary, from: l.from, to: l.to,
			killed: l.killed, failure: l.failure,
			stops: slices.Clone(l.stops),
		})
	}
	return all
}

func readLife(l life) (*lifetime, error) {
	records, err := readDiary(l.diary)
	if err != nil {
		return nil, err
	}
	t := &lifetime{proc: l.proc, number: l.number, from: l.from, to: l.to, killed: l.killed, stops: l.stops}
	frozen := slices.Clone(l.stops)
	byNumber := map[int64]*visit{}
	for _, r := range records {
		switch r.Kind {
		case kindGot, kindNot:
			v := &visit{
				lifetime: t, nth: r.N, key: r.Key, asked: r.Asked, bound: r.Bound, got: r.At,
				token: r.Token, err: r.Err, limit: r.Limit, cart: r.Cart,
				has: r.Kind == kindGot, until: r.Until, held: r.At, closing: r.Closing,
			}
			t.visits = append(t.visits, v)
			byNumber[r.N] = v
		case kindEnd:
			if v := byNumber[r.N]; v != nil {
				v.end(r)
			}
		case kindFreed:
			if v := byNumber[r.N]; v != nil {
				v.freed, v.taken, v.err = r.At, r.Taken, r.Err
			}
		case kindStall:
			frozen = append(frozen, span{r.Asked, r.At})
		case kindClosed:
			t.closed = &r
		case kindBegan, kindUndone, kindResult:
			t.asked = append(t.asked, r)
		}
	}
	t.frozen = apart(frozen)
	for _, v := range t.visits { // killed in its section: held until the time that the library told at its begin
		if v.has && v.exit == 0 && t.killed && v.until != 0 {
			v.held = max(v.got, t.to)
		}
	}
	return t, nil
}

func (v *visit) end(r record) {
	v.until, v.lost, v.exit, v.closing, v.wrote, v.refused, v.err = r.Until, r.Lost, r.At, r.Closing,
		r.Wrote, r.Refused, r.Err
	v.held, v.probe = max(v.got, r.Held), r.Probe
	v.inner, v.denied = r.Inner, r.Denied
}

// promised returns the time until which v alone may have held its key. The key
// was seen to be held, and not beyond the time that the library told. If the
// library has no clock, the promise ends when its process first did not run.
func (v *visit) promised() int64 {
	if v.until != 0 {
		return max(v.got, min(v.held, v.until))
	}
	end := v.held
	for _, s := range v.frozen {
		if s.To > v.got && s.From < end {
			end = max(v.got, s.From)
			break
		}
	}
	return end
}

// over returns the time at which v's section was over.
func (v *visit) over() int64 {
	switch {
	case v.exit != 0:
		return v.exit
	case v.to != 0:
		return v.to
	}
	return math.MaxInt64
}

func (v *visit) String() string {
	at := func(stamp int64) string {
		if stamp == 0 {
			return "-"
		}
		return fmt.Sprintf("%.6f", float64(stamp)/1e9)
	}
	return fmt.Sprintf("%s %s key %d token %d: asked %s, got %s, trusted to %s, seen held %s, told of loss %s, over "+
		"%s, wrote %s %s",
		v.id(), v.role(), v.key, v.token, at(v.asked), at(v.got), at(v.until), at(v.held), at(v.lost),
		at(v.exit), at(v.wrote), v.err)
}

// forgetful is a time in which two may hold a key, because the servers have
// lost confirmed changes. It lasts from such a fault until all earlier leases
// have ended.
type forgetful struct {
	span
	token uint64 // a grant with a higher token came after the loss; 0 if not known
}

func newForgetful(f fault) forgetful {
	if f.To == math.MaxInt64 {
		return forgetful{span: f.span}
	}
	w := forgetful{span: span{f.From, f.To + int64(mostTTL+200*time.Millisecond)}}
	if kinds[f.Kind].atOnce {
		w.token = uint64(f.over.UnixMicro()) // the server's clock is this machine's
	}
	return w
}

// forgets reports whether the servers may have lost x's lease, or one that its
// holder had before, between two times.
func (h *history) forgets(x *visit, from, to int64) bool {
	return slices.ContainsFunc(h.forgetful, func(w forgetful) bool {
		return w.touches(from, to) && (w.token == 0 || x.token <= w.token)
	})
}

// around returns the faults near a span, for a text.
func (h *history) around(from, to int64) fmt.Stringer { return surroundings{h, span{from, to}} }

type surroundings struct {
	history *history
	span    span
}

func (s surroundings) String() string {
	var text strings.Builder
	for _, f := range s.history.faults {
		if f.touches(s.span.From-int64(mostTTL), s.span.To) {
			text.WriteString("\n    fault: " + f.String())
		}
	}
	return text.String()
}

// apart returns spans in order of time, without overlaps.
func apart(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}
