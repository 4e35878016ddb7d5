package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
)

// DoAll is [Guard.Do] for several keys at once. It acquires them in sorted
// order, each once, so that two calls cannot deadlock. MaxWait bounds all the
// waiting for keys that are held. With a MaxWait of 0 it takes all keys or
// none.
//
// Free keys take one round trip for each 64 of them, if the store can do that,
// see [locker.Several]. Otherwise each key has an attempt of its own, and so it
// has in a mode or with WithFailOpen. Then the round trips of many free keys
// may take longer than MaxWait.
//
// fn's context carries all the leases and ends with the first that is lost.
// [LeaseFrom] finds the lease of the last key, and [LeaseOf] that of each, with
// its fencing token. All keys are released together, within one limit of at
// most 1 s.
//
// Calls of Do inside each other are not sorted. If one call takes A and then B,
// and another takes B and then A, both wait until MaxWait ends. Neither runs.
// Take such keys by one DoAll, or in the same order everywhere. If DoAll takes
// some of them too, that order must be its sorted order.
func (g *Guard) DoAll(ctx context.Context, keys []string, fn func(ctx context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	if len(keys) == 0 {
		return fmt.Errorf("%w: no keys", ErrInvalidKey)
	}
	g, err := g.resolve()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	if ctx == nil {
		return errNilContext
	}
	all := &leases{guard: g}
	ctx, all.cancel = context.WithCancelCause(ctx)
	defer all.cancel(nil)
	defer all.signal.End()
	if err := all.acquire(ctx, slices.Compact(slices.Sorted(slices.Values(keys)))); err != nil {
		return err
	}
	return all.run(ctx, fn)
}

// acquire acquires all keys or none. It takes as many as it can at once, and
// waits for the others one after the other.
func (ls *leases) acquire(ctx context.Context, keys []string) error {
	complete := false
	defer func() {
		if !complete { // even after a panic
			ls.drop()
		}
	}()
	p := ls.guard.patience()
	ls.keys, ls.group = len(keys), ls.guard.group(ctx, keys)
	defer ls.group.Drop()
	for _, key := range keys {
		p.Start = time.Now()
		l, err := ls.guard.acquire(ctx, key, p, ls)
		if err != nil {
			return withLoss(err, ls.err())
		}
		if !l.bare {
			ls.held = append(ls.held, l)
		}
		ls.last = l
	}
	complete = true
	return nil
}

// group returns the group for those of keys that need a turn of their own. A
// guard that fails open has none, because it decides for each key by itself.
// Nor has one with a mode, whose keys are acquired one after the other.
func (g *Guard) group(ctx context.Context, keys []string) *turns.Group {
	if g.failOpen || g.set.Limit != 0 {
		return nil
	}
	enclosing := leaseIn(ctx)
	inside := func(key string) bool { return findLease(enclosing, g.family, key) != nil }
	if g.set.MaxWait == 0 { // it waits for none
		keys = slices.DeleteFunc(slices.Clone(keys), inside)
	}
	return turns.NewGroup(g.family.engine, keys, inside, &g.set, events{g})
}

// err returns the cause of the first lease that is lost, or nil.
func (ls *leases) err() error {
	for _, l := range ls.held {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

// run runs fn under all the leases and releases them, whatever fn does.
func (ls *leases) run(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	panicked := true // or Goexit
	defer func() {
		for _, l := range ls.held {
			l.fn.failed.Store(panicked || err != nil)
		}
		lost := ls.release(ctx, panicked)
		if !panicked {
			err = afterRun(withLoss(err, lost))
		}
	}()
	for _, l := range ls.held {
		l.fn.called.Store(true)
	}
	err = fn(ls.last.ctx)
	runtime.KeepAlive(ls) // so that stacks show the address, see Lease.frame
	panicked = false
	return err
}

// An endedLease is a lease whose turn has ended, with the result.
type endedLease struct {
	lease *Lease
	back  bool // its key has to be released
	err   error
}

// release ends all turns first, without any I/O. Then it releases the keys that
// no other call here has taken over, all within one limit. It returns the first
// loss.
func (ls *leases) release(ctx context.Context, panicked bool) (lost error) {
	releaseAll(ctx, ls.stop(false), panicked)
	for _, l := range ls.held {
		if err := l.ending.known().err; errors.Is(err, ErrLeaseLost) {
			return err
		}
	}
	return nil
}

// stop ends the turns that the function has not ended itself, the last one
// first. unused says that there was no function.
func (ls *leases) stop(unused bool) []endedLease {
	ended := make([]endedLease, 0, len(ls.held))
	for _, l := range slices.Backward(ls.held) {
		if over := l.ending.begin(); over != nil {
			<-over
			continue
		}
		e := endedLease{lease: l}
		e.back, e.err = l.stop(unused)
		ended = append(ended, e)
	}
	return ended
}

// releaseAll releases the keys of the leases that need it, together, and
// settles all. It returns when all releases have an answer.
func releaseAll(ctx context.Context, ended []endedLease, panicked bool) {
	defer settle(ended, panicked) // also after a panic of an observer or the locker
	var back []*turns.Turn
	var at []int
	for i := range ended {
		if ended[i].back {
			back, at = append(back, ended[i].lease.turn), append(at, i)
			ended[i].err = ErrUnavailable // if there is no answer
		}
	}
	for n, err := range turns.ReleaseKeys(ctx, back) {
		ended[at[n]].err = err
	}
}

// drop gives up the leases of a DoAll that did not get all its keys. It does so
// in the background, because nobody has used them and nobody waits for the
// store.
func (ls *leases) drop() {
	ended := ls.stop(true)
	for _, e := range ended {
		if e.back {
			e.lease.turn.Discard()
		}
	}
	settle(ended, false)
}

// settle settles each lease, even those behind one whose log or observer
// panics.
func settle(ended []endedLease, panicked bool) {
	if len(ended) == 0 {
		return
	}
	defer settle(ended[1:], panicked)
	e := ended[0]
	e.lease.settle(e.lease.ctx, e.err, panicked)
}
