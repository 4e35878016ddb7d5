package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/go-lockguard/guard/internal/keyescape"
	"github.com/go-lockguard/guard/locker"
)

// KeyState is the state of one key in the store at one moment. Its fields are
// Key, Held, Owner (the owner id), Holder, Remaining (of the lease), Waiting
// (how many processes wait) and Waiters (the first 1,000 of them, in order).
// With Lingers the key may be idle, see [WithLinger]. Limit and Owners are of a
// key that several have. Record has the size of the result of [Once] in bytes,
// and how long it is kept, or that of the mark of an interrupted call. Then its
// Interrupted is true.
//
// Key is the key as the verbs take it, unless it is too long for the store. The
// store has only a hash of such a key. The hash begins with "%sha256:", and
// [Guard.Inspect], [Guard.ForceRelease] and [Guard.Forget] take it as well.
type KeyState = locker.KeyState

// Waiter is a process that waits for a key, see [KeyState]. Its fields are
// Owner (the owner id that it would have) and Holder, which describes the
// process.
type Waiter = locker.Waiter

// Inspect returns the holder of key in the store, in this process or another,
// and the processes that wait for it. For a key that nobody has it returns a
// KeyState with Held false, and no error.
//
// Inspect is for operators. It makes one request to the store, which disturbs
// nobody. It blocks until the answer or the end of ctx. Its errors are
// ErrInvalidKey, ErrUnavailable, which wraps the store's error, ErrClosed,
// ErrNoDefault, and ErrInvalidOption for a nil ctx. It returns
// [errors.ErrUnsupported] if nobody can look into the store. Inspect, List and
// ForceRelease are safe for concurrent use.
func (g *Guard) Inspect(ctx context.Context, key string) (KeyState, error) {
	s := KeyState{Key: key}
	err := g.inspect(ctx, func(in locker.Inspector) error {
		if err := checkName(key); err != nil {
			return err
		}
		var err error
		s, err = in.Inspect(ctx, storeName(key))
		s.Key, s.Record.Interrupted = key, isInterrupted(s.Record.Head)
		return known(err)
	})
	return s, err
}

// List returns the state of every key under the locker's prefix that is held or
// waited for. Each state is the same as from [Guard.Inspect]. The keys may
// belong to any guard and come in no order. List leaves out the keys by which
// leaders hear requests of [Guard.AskLeader].
//
// List takes a page at a time and keeps no more in memory. Keys that appear or
// disappear meanwhile may be missing, and a key may come twice. List blocks on
// the store between pages, until ctx ends. An error with a Key is about that
// key alone. An error without a Key is one of Inspect's and ends the list.
func (g *Guard) List(ctx context.Context) iter.Seq2[KeyState, error] {
	return func(yield func(KeyState, error) bool) {
		err := g.inspect(ctx, func(in locker.Inspector) error {
			for s, err := range in.List(ctx) {
				if key, ok := keyescape.Key(s.Key); ok {
					s.Key = key
				}
				if isRequestKey(s.Key) {
					continue
				}
				s.Record.Interrupted = isInterrupted(s.Record.Head)
				if !yield(s, known(err)) {
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

// ForceRelease takes key from owner and hands it to the next process that
// waits. owner is the owner id that [Guard.Inspect] shows. It is for an
// operator who knows that the holder hangs.
//
// The holder's function may still be running. Its context ends with its next
// renewal. That is within a third of its TTL, or at once where a message
// reaches it. The function runs until it heeds that, and the next holder does
// not wait for it.
//
// If owner does not hold key any more, ForceRelease frees nothing and returns
// ErrLeaseLost. It returns ErrInvalidOption for a string that is no owner id.
// Other errors are those of Inspect. After ErrUnavailable the key may be free
// or not, so look again.
func (g *Guard) ForceRelease(ctx context.Context, key, owner string) error {
	return g.inspect(ctx, func(in locker.Inspector) error {
		if err := checkName(key); err != nil {
			return err
		}
		return known(in.ForceRelease(ctx, storeName(key), owner))
	})
}

// inspect calls look with the locker, if that can be looked into.
func (g *Guard) inspect(ctx context.Context, look func(in locker.Inspector) error) error {
	return g.visit(ctx, func(g *Guard) error {
		if !g.family.locker.Capabilities().Inspects {
			return fmt.Errorf("guard: %w: this locker cannot be looked into", errors.ErrUnsupported)
		}
		return look(g.family.locker)
	})
}

// visit calls f with what g stands for, unless ctx is nil. The locker is kept
// open meanwhile.
func (g *Guard) visit(ctx context.Context, f func(g *Guard) error) error {
	g, err := g.resolve()
	if err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	if !g.family.engine.Enter() {
		return ErrClosed
	}
	defer g.family.engine.Leave()
	return f(g)
}
