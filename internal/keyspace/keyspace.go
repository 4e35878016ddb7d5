// Package keyspace gives a part of a store to who wants a store of its own, for
// the time of a test: each key gets a prefix.
package keyspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-lockguard/guard/locker"
)

// Space is the part of a store whose keys begin with a prefix. It is safe for
// concurrent use.
type Space struct {
	prefix string

	mu    sync.Mutex        // guards names
	names map[string]string // of the keys that were used, by their names in the store
}

// New returns a Space. Nobody else may use the prefix.
func New(prefix string) *Space { return &Space{prefix: prefix, names: map[string]string{}} }

// In returns l as a Locker that sees only this Space. Its keys do not linger.
func (s *Space) In(l locker.Locker) locker.Locker { return under{l, s} }

// name returns the name of key in the store. Of a key that is too long it has a
// hash.
func (s *Space) name(key string) string {
	name := s.prefix + key
	if len(name) > locker.MaxKey {
		name = fmt.Sprintf("%s%x", s.prefix, sha256.Sum256([]byte(key)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = key
	return name
}

// key returns the key of a name in the store.
func (s *Space) key(name string) (key string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key, ok = s.names[name]; ok {
		return key, true
	}
	return strings.CutPrefix(name, s.prefix)
}

// Clear frees all keys that were used in the Space, and deletes their records.
// l is open, and not of the Space.
func (s *Space) Clear(ctx context.Context, l locker.Locker) (err error) {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.names))
	s.mu.Unlock()
	can := l.Capabilities()
	for _, name := range names {
		if can.Records {
			_, e := l.Forget(ctx, name)
			err = errors.Join(err, e)
		}
		if !can.Inspects {
			continue
		}
		state, e := l.Inspect(ctx, name)
		err = errors.Join(err, e)
		for _, o := range append(state.Owners, locker.Waiter{Owner: state.Owner}) {
			if e := l.ForceRelease(ctx, name, o.Owner); o.Owner != "" && !errors.Is(e, locker.ErrLeaseLost) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// claim returns c as the store sees it.
func (s *Space) claim(c *locker.Claim) *locker.Claim {
	if c == nil {
		return nil
	}
	d := *c
	d.Key = s.name(c.Key)
	return &d
}

func (s *Space) claims(cs []*locker.Claim) []*locker.Claim {
	ds := make([]*locker.Claim, len(cs))
	for i, c := range cs {
		ds[i] = s.claim(c)
	}
	return ds
}

// back gives c what the store has noted in d. It writes nothing else, because
// others may read c.
func back(c, d *locker.Claim) {
	if c.Holder.Instance != d.Holder.Instance {
		c.Holder.Instance = d.Holder.Instance
	}
	if c.State != d.State {
		c.State = d.State
	}
}

// under is a Locker in a Space.
type under struct {
	locker.Locker
	space *Space
}

// Capabilities are those of the store, but for keys that linger.
func (u under) Capabilities() locker.Capabilities {
	can := u.Locker.Capabilities()
	can.Lingers = false
	return can
}

func (u under) Node(key string) string { return u.Locker.Node(u.space.name(key)) }

func (u under) Open(w locker.Waker) error { return u.Locker.Open(waker{w, u.space}) }

func (u under) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	d := u.space.claim(c)
	defer back(c, d)
	return u.Locker.Acquire(ctx, d, t)
}

func (u under) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	u.Locker.Renew(ctx, u.space.claims(cs), answered)
}

func (u under) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	return u.Locker.Fence(ctx, u.space.claim(c))
}

func (u under) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if next := e.Next; next != nil {
		e.Next = u.space.claim(next)
		defer back(next, e.Next)
	}
	return u.Locker.Release(ctx, u.space.claim(c), e)
}

func (u under) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	state, err := u.Locker.Inspect(ctx, u.space.name(key))
	state.Key = key
	return state, err
}

func (u under) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		for state, err := range u.Locker.List(ctx) {
			key, ok := u.space.key(state.Key)
			if !ok && state.Key != "" {
				continue
			}
			state.Key = key
			if !yield(state, err) {
				return
			}
		}
	}
}

func (u under) ForceRelease(ctx context.Context, key, owner string) error {
	return u.Locker.ForceRelease(ctx, u.space.name(key), owner)
}

func (u under) AcquireAll(ctx context.Context, cs []*locker.Claim, prefix bool) ([]locker.Answer, int, error) {
	ds := u.space.claims(cs)
	defer func() {
		for i, c := range cs {
			back(c, ds[i])
		}
	}()
	return u.Locker.AcquireAll(ctx, ds, prefix)
}

func (u under) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(int, locker.Released, error),
) {
	in := make([]locker.End, len(ends))
	for i, e := range ends {
		in[i] = e
		in[i].Next = u.space.claim(e.Next)
	}
	u.Locker.ReleaseAll(ctx, u.space.claims(cs), in, answered)
}

func (u under) Forget(ctx context.Context, key string) (bool, error) {
	return u.Locker.Forget(ctx, u.space.name(key))
}

func (u under) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (string, error) {
	d := u.space.claim(c)
	defer back(c, d)
	return u.Locker.Begin(ctx, d, r)
}

// waker hears of keys by their names in the store.
type waker struct {
	to    locker.Waker
	space *Space
}

func (w waker) Granted(name, owner string, o locker.Offer) {
	w.tell(name, func(key string) { w.to.Granted(key, owner, o) })
}

func (w waker) Orphaned(name, owner string) {
	w.tell(name, func(key string) { w.to.Orphaned(key, owner) })
}

func (w waker) Wanted(name string) { w.tell(name, w.to.Wanted) }
func (w waker) Wake(name string)   { w.tell(name, w.to.Wake) }
func (w waker) WakeAll()           { w.to.WakeAll() }

func (w waker) Revoked(name, owner string) {
	w.tell(name, func(key string) { w.to.Revoked(key, owner) })
}

func (w waker) Recorded(name, owner, value string) {
	w.tell(name, func(key string) { w.to.Recorded(key, owner, value) })
}

func (w waker) tell(name string, f func(key string)) {
	if key, ok := w.space.key(name); ok {
		f(key)
	}
}
