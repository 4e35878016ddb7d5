package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-lockguard/guard/internal/keyenc"
	"github.com/go-lockguard/guard/locker"
)

// KeyState is what the store knows of one key at one moment: who holds it and
// until when, and who waits for it, one entry for each process. Key is the key
// as the verbs take it, but for one that is too long for the store: of that
// only a hash is left, which begins with "%sha256:" and which [Guard.Inspect]
// and [Guard.ForceRelease] take as well.
type KeyState = locker.KeyState

// Waiter is a process that waits for a key, see [KeyState].
type Waiter = locker.Waiter

// Inspect tells who holds key in the store, in this process or another, and who
// waits for it. A key that nobody has is a KeyState with Held false, and no
// error. It is for operators: a request to the store which disturbs nobody, and
// blocks until it is answered or ctx ends. Errors: ErrInvalidKey,
// ErrUnavailable, ErrClosed, ErrNoDefault, and [errors.ErrUnsupported] if the
// locker is no [locker.Inspector]. It is safe for concurrent use, like List and
// ForceRelease.
func (g *Guard) Inspect(ctx context.Context, key string) (KeyState, error) {
	s := KeyState{Key: key}
	err := g.inspect(func(in locker.Inspector) error {
		if err := checkName(key); err != nil {
			return err
		}
		var err error
		s, err = in.Inspect(ctx, storeName(key))
		s.Key = key
		return err
	})
	return s, err
}

// List tells the same as [Guard.Inspect] of every key that the store holds
// under the locker's prefix, or that somebody waits for, whichever guard it
// belongs to, in no order. It takes a page at a time and holds no more than
// that; keys that come or go meanwhile may be there or not, and one may come
// twice. It blocks on the store between pages, until ctx ends. An error with a
// Key is about that key alone; one without, of those that Inspect returns, is
// the end.
func (g *Guard) List(ctx context.Context) iter.Seq2[KeyState, error] {
	return func(yield func(KeyState, error) bool) {
		err := g.inspect(func(in locker.Inspector) error {
			for s, err := range in.List(ctx) {
				if key, ok := keyenc.Key(s.Key); ok {
					s.Key = key
				}
				if !yield(s, err) {
					break
				}
			}
			return nil
		})
		if err != nil {
			yield(KeyState{}, err)
		}
	}
}

// ForceRelease takes key from owner, the owner id that [Guard.Inspect] shows,
// and hands it to the next who waits. It is for an operator who knows that the
// holder hangs: its function may still be running, until its context ends with
// its next renewal (within a third of its TTL, or at once where a message
// reaches it) and it heeds that. Whoever is next does not wait for it.
//
// If owner does not hold key any more it frees nothing and returns
// ErrLeaseLost; ErrInvalidOption for what is no owner id; else the errors of
// Inspect. After ErrUnavailable the key may be free or not: look again.
func (g *Guard) ForceRelease(ctx context.Context, key, owner string) error {
	return g.inspect(func(in locker.Inspector) error {
		if err := checkName(key); err != nil {
			return err
		}
		return in.ForceRelease(ctx, storeName(key), owner)
	})
}

// inspect calls look with the locker, which is kept open meanwhile.
func (g *Guard) inspect(look func(in locker.Inspector) error) error {
	g, err := g.resolve()
	if err != nil {
		return err
	}
	in, ok := g.family.locker.(locker.Inspector)
	if !ok {
		return fmt.Errorf("guard: %w: this locker cannot be looked into", errors.ErrUnsupported)
	}
	if !g.family.engine.Enter() {
		return ErrClosed
	}
	defer g.family.engine.Leave()
	return look(in)
}

// storeName returns the name that the store knows key by.
func storeName(key string) string {
	if keyenc.IsHash(key) {
		return key
	}
	return keyenc.Plain(key)
}
