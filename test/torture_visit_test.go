package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

var tortured = []string{"a", "b", "c"}

// A visit is one caller with its keys and its behavior.
type visit struct {
	torture *torture
	guard   *guard.Guard
	keys    []string
	start   time.Time
	wait    time.Duration
	work    time.Duration

	stubborn, panics, exits, nests, late bool
}

// AtMost implements [judge.Guest].
func (*visit) AtMost() int { return 1 }

func ms(r *rand.Rand, most int) time.Duration { return time.Duration(r.IntN(most)) * time.Millisecond }

// visit sends one caller once. The caller may panic or call Goexit.
func (tt *torture) visit(g *guard.Guard, r *rand.Rand) {
	v := &visit{
		torture: tt, start: time.Now(), wait: ms(r, 3000), work: ms(r, 50),
		keys:     []string{tortured[r.IntN(len(tortured))]},
		stubborn: r.IntN(10) == 0, panics: r.IntN(30) == 0, exits: r.IntN(30) == 0, nests: r.IntN(5) == 0,
		late: r.IntN(5) == 0,
	}
	v.guard = g.With(append(terms(r), guard.WithMaxWait(v.wait))...)
	if r.IntN(20) == 0 && !tt.calm {
		v.work = ms(r, 8000)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(5) == 0 {
		time.AfterFunc(ms(r, 1000), cancel)
	}
	defer func() { _ = recover() }()
	err := v.call(ctx, r)
	if errors.Is(err, guard.ErrNotAcquired) || errors.Is(err, guard.ErrUnavailable) {
		v.checkWait(ctx)
	}
	if err != nil {
		time.Sleep(time.Millisecond)
	}
}

// terms returns the terms of a call. Most calls have the terms of the family.
func terms(r *rand.Rand) []guard.Option {
	switch r.IntN(8) {
	case 0:
		return []guard.Option{guard.WithTTL(time.Second)}
	case 1:
		return []guard.Option{guard.WithoutRenewal()}
	case 2:
		return []guard.Option{guard.WithTTL(5 * time.Second), guard.WithMaxHold(0)}
	}
	return nil
}

// call calls one of the verbs.
func (v *visit) call(ctx context.Context, r *rand.Rand) error {
	switch n := r.IntN(10); {
	case n == 0 && !v.torture.calm: // a DoAll that waits for one key keeps others idle
		v.keys = tortured[:2+r.IntN(2)]
		return v.guard.DoAll(ctx, slices.Concat(v.keys, v.keys), func(in context.Context) error {
			v.section(in)
			return nil
		})
	case n == 1:
		l, err := v.guard.TryAcquire(ctx, v.keys[0])
		return v.use(l, err)
	case n == 2:
		l, err := v.guard.Acquire(ctx, v.keys[0])
		return v.use(l, err)
	}
	return v.guard.Do(ctx, v.keys[0], func(in context.Context) error {
		v.checkWait(ctx)
		v.section(in)
		return nil
	})
}

// use works under a lease without a function, and releases it, perhaps twice
// and from two goroutines.
func (v *visit) use(l *guard.Lease, err error) error {
	if err != nil {
		return err
	}
	defer func() {
		if v.late {
			go func() { _ = l.Release(context.Background()) }()
		}
		_ = l.Release(context.Background())
	}()
	v.section(l.Context())
	return nil
}

// checkWait checks that the wait has kept its bound. The bound is known only
// for a caller that stayed, and for one key.
func (v *visit) checkWait(ctx context.Context) {
	d := time.Since(v.start)
	if ctx.Err() == nil && len(v.keys) == 1 && d > max(v.wait, 500*time.Millisecond)+50*time.Millisecond {
		v.torture.violation("waited %v of %v", d, v.wait)
	}
}

// section is the critical section.
func (v *visit) section(ctx context.Context) {
	since := v.start
	if len(v.keys) > 1 {
		since = time.Time{}
	}
	for _, k := range v.keys {
		v.torture.enter(v, k, since)
	}
	leave := sync.OnceFunc(func() {
		for _, k := range v.keys {
			v.torture.leave(v, k)
		}
	})
	defer leave()
	stop := context.AfterFunc(ctx, leave) // once ctx ends, the caller no longer believes that it holds the keys
	defer stop()
	if token, err := guard.FencingToken(ctx); err == nil {
		v.torture.token(v.keys[len(v.keys)-1], token)
	}
	if v.nests {
		v.nest(ctx)
	}
	select {
	case <-time.After(v.work):
	case <-ctx.Done():
		if v.stubborn {
			time.Sleep(v.work)
		}
	}
	switch {
	case v.panics:
		panic("torture")
	case v.exits:
		runtime.Goexit()
	}
}

// nest calls verbs again for the keys that it has, both in sequence and at the
// same time.
func (v *visit) nest(ctx context.Context) {
	var wg sync.WaitGroup
	for _, k := range v.keys {
		_ = v.guard.Do(ctx, k, nop)
		wg.Go(func() { _ = v.guard.Do(ctx, k, nop) })
		if l, err := v.guard.TryAcquire(ctx, k); err == nil {
			_ = l.Release(ctx)
		}
	}
	wg.Wait()
}
