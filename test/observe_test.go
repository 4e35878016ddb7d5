package guard_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// A diary is an observer that records its calls.
type diary struct {
	guard.NopObserver
	slow time.Duration // time that HoldStart takes

	mu       sync.Mutex // guards the fields below
	waits    []guard.WaitResult
	holds    []guard.HoldResult
	losses   []error
	renewals []guard.RenewResult
	names    []string // of the renewals
}

func (d *diary) note(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *diary) HoldStart(ctx context.Context, _ guard.WaitInfo) context.Context {
	time.Sleep(d.slow)
	return ctx
}

func (d *diary) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) {
	d.note(func() { d.waits = append(d.waits, r) })
}

func (d *diary) HoldEnd(_ context.Context, _ guard.WaitInfo, r guard.HoldResult) {
	d.note(func() { d.holds = append(d.holds, r) })
}

func (d *diary) LeaseLost(_ context.Context, _ guard.WaitInfo, err error) {
	d.note(func() { d.losses = append(d.losses, err) })
}

func (d *diary) Renewed(_ context.Context, w guard.WaitInfo, r guard.RenewResult) {
	d.note(func() { d.renewals, d.names = append(d.renewals, r), append(d.names, w.Name) })
}

func (d *diary) Traceparent(context.Context) string { return "trace of this process" }

func TestNew_AnObserverThatIsGivenTwiceIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, other := new(diary), &listing{diaries: []*diary{new(diary)}}
		g := newBench(t, guard.WithObserver(d), guard.WithObserver(d), guard.WithObserver(*other)).
			With(guard.WithObserver(d)).With(guard.WithObserver(*other), guard.WithObserver(new(diary)))
		wantErr(t, g.Do(t.Context(), key, nop), nil)
		if len(d.waits) != 1 || len(d.holds) != 1 {
			t.Errorf("told of %d waits and %d holds, want one of each", len(d.waits), len(d.holds))
		}
	})
}

// A listing is an observer that == cannot compare.
type listing struct {
	guard.NopObserver
	diaries []*diary
}

func TestDo_ObserversLearnOfALossAtOnceAndOnlyOnce(t *testing.T) {
	for name, lose := range map[string]func(b *bench, ctx context.Context){
		"taken":                func(b *bench, ctx context.Context) { b.mem.Lose(key); <-ctx.Done() },
		"past its deadline":    func(b *bench, ctx context.Context) { b.mem.Break(); <-ctx.Done() },
		"noticed when it ends": func(b *bench, _ context.Context) { b.mem.Lose(key) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				b := newBench(t, guard.WithObserver(d))
				err := b.Do(t.Context(), key, func(ctx context.Context) error {
					lose(b, ctx)
					synctest.Wait()
					d.note(func() {
						if noticed := ctx.Err() != nil; (len(d.losses) == 1) != noticed {
							t.Errorf("told of %d losses while the function runs", len(d.losses))
						}
					})
					time.Sleep(3 * time.Second)
					return nil
				})
				wantErr(t, err, guard.ErrLeaseLost)
				synctest.Wait() // LeaseLost runs in another goroutine
				if len(d.losses) != 1 || len(d.holds) != 1 {
					t.Fatalf("told of %v and %+v", d.losses, d.holds)
				}
				wantErr(t, d.losses[0], guard.ErrLeaseLost)
				if r := d.holds[0].Overrun; name == "noticed when it ends" && r > 3*time.Second ||
					name != "noticed when it ends" && r != 3*time.Second {
					t.Errorf("ran on for %v", r)
				}
			})
		})
	}
}

// A pause of the process between the grant and the function's start must not
// hide the loss from the function.
func TestDo_ALeaseLostBeforeItsFunctionStartsEndsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{slow: 11 * time.Second}
		b := newBench(t, guard.WithoutRenewal(), guard.WithObserver(d))
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			wantErr(t, context.Cause(ctx), guard.ErrLeaseLost)
			return nil
		})
		wantErr(t, err, guard.ErrLeaseLost)
		synctest.Wait()
		if len(d.losses) != 1 {
			t.Errorf("told of %v", d.losses)
		}
	})
}

func TestDo_ARenewalIsLateInTheSecondHalfOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		b := newBench(t, guard.WithObserver(d))
		err := b.With(guard.WithName("route")).Do(t.Context(), key, func(context.Context) error {
			time.Sleep(4 * time.Second) // renewed
			mend := b.mem.Break()
			time.Sleep(5 * time.Second) // a try to renew fails
			mend()
			time.Sleep(2 * time.Second) // renewed late
			return nil
		})
		wantErr(t, err, nil)
		first, last := d.renewals[0], d.renewals[len(d.renewals)-1]
		if first.Err != nil || first.Late || first.Left < 5*time.Second || last.Err != nil ||
			!last.Late || len(d.renewals) < 3 {
			t.Errorf("told of %+v", d.renewals)
		}
		for i, r := range d.renewals {
			if r.Late != (r.Left < trustOf10s/2) || d.names[i] != "route" {
				t.Errorf("%+v of %s", r, d.names[i])
			}
		}
	})
}

// A lease that begins short is trusted for longer after its second renewal
// only. Neither is late if the store answers at once.
func TestDo_NoRenewalIsLateThatIsAnsweredWhenItIsDue(t *testing.T) {
	for name, opts := range map[string][]guard.Option{
		"an offer":            nil,
		"an offer of 30 s":    {guard.WithTTL(30 * time.Second)},
		"an offer of 1 s":     {guard.WithTTL(2 * time.Second)},
		"a key that lingers":  {guard.WithLinger(time.Second)},
		"a shared hand-over":  {guard.WithShared()},
		"a permit of several": {guard.WithPermits(3)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				b := newBench(t, append(opts, guard.WithObserver(d), guard.WithMaxWait(time.Minute))...)
				for age := range 10 { // of the look that has seen the claim queued
					holder := must(b.other.Acquire(t.Context(), key))
					time.AfterFunc(time.Second+time.Duration(age)*50*time.Millisecond, func() {
						_ = holder.Release(t.Context())
					})
					wantErr(t, b.Do(t.Context(), key, func(context.Context) error {
						time.Sleep(5 * time.Second)
						return nil
					}), nil)
				}
				for _, r := range d.renewals {
					if r.Err != nil || r.Late {
						t.Errorf("told of %+v", r)
					}
				}
				if len(d.renewals) == 0 {
					t.Error("no renewal")
				}
			})
		})
	}
}

func TestDo_TheBlockerIsKnownToThoseWhoOnlyStoodInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		b := newBench(t, guard.WithObserver(d), guard.WithMaxWait(time.Minute))
		blockers := func(want ...string) {
			t.Helper()
			d.note(func() {
				if len(d.waits) != len(want) {
					t.Fatalf("%d waits, want %d", len(d.waits), len(want))
				}
				for i, w := range d.waits {
					if w.Blocker.Traceparent != want[i] {
						t.Errorf("wait %d: blocked by %+v", i, w.Blocker)
					}
				}
				d.waits = nil
			})
		}
		var wg sync.WaitGroup
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = b.Do(t.Context(), key, func(context.Context) error {
			wg.Go(func() { _ = b.Do(t.Context(), key, nop) })
			synctest.Wait()
			_ = b.Do(short, key, nop)
			return nil
		})
		wg.Wait()
		const here = "trace of this process"
		blockers("", here, here) // got it at once, left the line, got it by hand-off

		l := must(b.other.With(guard.WithObserver(elsewhere{})).Acquire(t.Context(), key))
		d.note(func() { d.waits = nil })
		short, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		wg.Go(func() { _ = b.Do(t.Context(), key, nop) }) // contends
		synctest.Wait()
		_ = b.Do(short, key, nop) // in line behind it
		_ = l.Release(t.Context())
		wg.Wait()
		blockers(here, here)
	})
}

type elsewhere struct{ guard.NopObserver }

func (elsewhere) Traceparent(context.Context) string { return "another trace" }

// named is an observer that records the names of guards.
type named struct {
	guard.NopObserver
	names []string
}

func (n *named) GuardNamed(name string) { n.names = append(n.names, name) }

func TestDo_ObserversLearnOfNamesBeforeTheFirstCall(t *testing.T) {
	first, second := &named{}, &named{}
	b := newBench(t, guard.WithObserver(first))
	b.With(guard.WithName("refund"), guard.WithObserver(second)).With(guard.WithMaxWait(0))
	var none *guard.Guard
	none.With(guard.WithObserver(second), guard.WithName("of the default"))
	if want := []string{"guard", "guard", "refund", "refund"}; !slices.Equal(first.names, want) { // New twice
		t.Errorf("got %q, want %q", first.names, want)
	}
	if want := []string{"refund", "refund"}; !slices.Equal(second.names, want) {
		t.Errorf("got %q, want %q", second.names, want)
	}
}
