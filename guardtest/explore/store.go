package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// store is the store of the leases as one process sees it.
type store struct {
	*memlocker.Locker

	p *process
}

var errLost = fmt.Errorf("explore: %w: %w", locker.ErrUnavailable, locker.ErrSilent)

// ask sends a request to the store, by do, which returns what came of it.
func (s *store) ask(ctx context.Context, what string, kinds []kind, keys touched,
	do func(ctx context.Context) string,
) error {
	p, w := s.p, s.p.w
	k := p.pass(what, kinds, keys)
	unanswered := func() error {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		case <-p.end:
		}
		p.pass("silence of "+what, minor, nothing)
		return errLost
	}
	switch k {
	case over:
		return errLost
	case lostRequest:
		return unanswered()
	case pause, longPause:
		if p.stand(k, keys) == over {
			return errLost
		}
	}
	told := do(ctx)
	if told != "" {
		w.log(p, told)
	}
	switch k {
	case crash:
		p.crash()
	case lostAnswer:
		w.unheard(p)
		return unanswered()
	}
	p.freezeAt(what)
	return nil
}

// told is the line about a request for key that was answered.
func told(done, request, key string, err error) string {
	switch {
	case err == nil:
		return done + " " + key
	case errors.Is(err, locker.ErrLeaseLost):
		return "no longer has " + key
	}
	return outcome(request+" "+key, err)
}

func (s *store) see(c *locker.Claim) {
	w := s.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[c.Key] = true
	w.ttl = max(w.ttl, c.TTL)
}

// Open implements [locker.Locker].
func (s *store) Open(w locker.Waker) error { return s.Locker.Open(&ear{w, s}) }

// Acquire implements [locker.Locker].
func (s *store) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (a locker.Answer, err error) {
	s.see(c)
	kinds := askKinds
	if t.Queued {
		kinds = minor // it looks again
	}
	if e := s.ask(ctx, "take "+c.Key, kinds, touched{c.Key}, func(ctx context.Context) string {
		a, err = s.Locker.Acquire(ctx, c, t)
		switch {
		case err != nil:
			return outcome("take "+c.Key, err)
		case a.Acquired:
			return "has " + c.Key
		case a.Record != "":
			return "finds the result of " + c.Key
		case t.Queued:
			return ""
		}
		return "waits for " + c.Key
	}); e != nil {
		return locker.Answer{Queued: t.Queued || t.Wait}, e
	}
	return a, err
}

// AcquireAll implements [locker.Locker].
func (s *store) AcquireAll(ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	keys := make(touched, len(cs))
	for i, c := range cs {
		s.see(c)
		keys[i] = c.Key
	}
	names := func(n int) string { return strings.Join(keys[:n], ", ") }
	if e := s.ask(ctx, "take "+names(len(cs)), askKinds, keys, func(ctx context.Context) string {
		as, held, err = s.Locker.AcquireAll(ctx, cs, prefix)
		switch {
		case err != nil || held == len(cs):
			return told("has", "take", names(len(cs)), err)
		case prefix && held > 0:
			return "has " + names(held) + ", and not " + keys[held]
		}
		return "has none of " + names(len(cs)) + ": " + keys[held] + " is held"
	}); e != nil {
		return nil, 0, e
	}
	return as, held, err
}

// Renew implements [locker.Locker]. Unlike the order of cs, that of the answers
// is the same in each run.
func (s *store) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	at := make(map[*locker.Claim]int, len(cs))
	for i, c := range cs {
		at[c] = i
	}
	cs = slices.SortedFunc(slices.Values(cs), func(a, b *locker.Claim) int { return cmp.Compare(a.Key, b.Key) })
	errs, keys := make([]error, len(cs)), make(touched, len(cs))
	for i, c := range cs {
		keys[i] = c.Key
	}
	if e := s.ask(ctx, "renew", minor, keys, func(ctx context.Context) string {
		s.Locker.Renew(ctx, cs, func(i int, err error) { errs[i] = err })
		var lines []string
		for i, err := range errs {
			if err != nil && ctx.Err() == nil {
				lines = append(lines, told("", "renew", keys[i], err))
			}
		}
		return strings.Join(lines, "; ")
	}); e != nil {
		for i := range errs {
			errs[i] = e
		}
	}
	for i, err := range errs {
		answered(at[cs[i]], err)
	}
}

// Fence implements [locker.Locker].
func (s *store) Fence(ctx context.Context, c *locker.Claim) (token uint64, err error) {
	if e := s.ask(ctx, "fence "+c.Key, askKinds, touched{c.Key}, func(ctx context.Context) string {
		token, err = s.Locker.Fence(ctx, c)
		return told("gets a token for", "fence", c.Key, err)
	}); e != nil {
		return 0, e
	}
	return token, err
}

// Release implements [locker.Locker].
func (s *store) Release(ctx context.Context, c *locker.Claim, end locker.End) (r locker.Released, err error) {
	if end.Queued { // in the background, and no step of the process
		s.p.freeze()
		return s.Locker.Release(ctx, c, end)
	}
	request, done := "free", "frees"
	if end.Record.Value != "" {
		request, done = "record", "records the result of"
	}
	if e := s.ask(ctx, request+" "+c.Key, askKinds, touched{c.Key}, func(ctx context.Context) string {
		r, err = s.Locker.Release(ctx, c, end)
		return told(done, request, c.Key, err)
	}); e != nil {
		return locker.Released{}, e
	}
	return r, err
}

// ReleaseAll implements [locker.Locker].
func (s *store) ReleaseAll(ctx context.Context, cs []*locker.Claim, ends []locker.End,
	answered func(i int, r locker.Released, err error),
) {
	for i, c := range cs {
		r, err := s.Release(ctx, c, ends[i])
		answered(i, r, err)
	}
}

// Begin implements [locker.Locker].
func (s *store) Begin(ctx context.Context, c *locker.Claim, rec locker.Record) (record string, err error) {
	if e := s.ask(ctx, "mark "+c.Key, askKinds, touched{c.Key}, func(ctx context.Context) string {
		record, err = s.Locker.Begin(ctx, c, rec)
		return told("marks", "mark", c.Key, err)
	}); e != nil {
		return "", e
	}
	return record, err
}

// Forget implements [locker.Locker].
func (s *store) Forget(ctx context.Context, key string) (found bool, err error) {
	if e := s.ask(ctx, "forget "+key, askKinds, touched{key}, func(ctx context.Context) string {
		found, err = s.Locker.Forget(ctx, key)
		return told("forgets", "forget", key, err)
	}); e != nil {
		return false, e
	}
	return found, err
}

// Close implements [locker.Locker].
func (s *store) Close(ctx context.Context) error { return s.Locker.Close(ctx) }

// ear hears what the store tells a process, as steps of that process. A process
// that has died hears nothing.
type ear struct {
	w locker.Waker
	s *store
}

func (e *ear) hear(what string, tell func()) {
	p := e.s.p
	go func() { // ends with tell, or with the process
		if p.pass("hear "+what, minor, nothing) != over {
			tell()
		}
	}()
}

func (e *ear) Granted(key, owner string, o locker.Offer) {
	e.hear(key, func() { e.w.Granted(key, owner, o) })
}
func (e *ear) Orphaned(key, owner string) { e.hear(key, func() { e.w.Orphaned(key, owner) }) }
func (e *ear) Wanted(key string)          { e.hear("wanted "+key, func() { e.w.Wanted(key) }) }
func (e *ear) Wake(key string)            { e.hear(key, func() { e.w.Wake(key) }) }
func (e *ear) WakeAll()                   { e.hear("all", e.w.WakeAll) }
func (e *ear) Revoked(key, owner string) {
	e.hear(key, func() { e.w.Revoked(key, owner) })
}

func (e *ear) Recorded(key, owner, value string) {
	e.hear(key, func() { e.w.Recorded(key, owner, value) })
}
