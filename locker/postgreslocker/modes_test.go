package postgreslocker_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// crowd counts what is inside at one instant.
type crowd struct {
	mu               sync.Mutex // guards all below
	readers, writers int
	permits          int
}

// enter counts one more. It returns an error if those who are inside may not be
// there together.
func (c *crowd) enter(n *int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
	if c.writers > 1 || c.writers == 1 && c.readers+c.permits > 0 || c.permits > 3 {
		return fmt.Errorf("%d writers, %d readers and %d permits run at once", c.writers, c.readers, c.permits)
	}
	return nil
}

func (c *crowd) leave(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n--
}

// guards returns guards of two processes on one table.
func guards(t *testing.T) (gs []*guard.Guard) {
	t.Helper()
	a, b := pair(t)
	for _, l := range []guard.Locker{a, b} {
		g, err := guard.New(l, guard.WithMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		gs = append(gs, g)
	}
	return gs
}

func TestReadersWritersAndPermitsOfTwoProcessesCount(t *testing.T) {
	t.Parallel()
	var books, exports crowd
	var all sync.WaitGroup
	for _, g := range guards(t) {
		for _, role := range []struct {
			key   string
			in    *crowd
			n     *int
			opts  []guard.Option
			calls int
		}{
			{"book", &books, &books.readers, []guard.Option{guard.WithShared()}, 6},
			{"book", &books, &books.writers, nil, 2},
			{"export", &exports, &exports.permits, []guard.Option{guard.WithPermits(3)}, 6},
			{"export", &exports, &exports.writers, nil, 1},
		} {
			g := g.With(role.opts...)
			for range role.calls {
				all.Go(func() {
					for range 30 {
						if err := g.Do(t.Context(), role.key, func(context.Context) error {
							defer role.in.leave(role.n)
							return role.in.enter(role.n)
						}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
	}
	all.Wait()
}

func TestSeveralKeysOfTwoProcessesAreTakenTogether(t *testing.T) {
	t.Parallel()
	var inside [5]crowd
	var all sync.WaitGroup
	for n, g := range guards(t) {
		for call := range 4 {
			all.Go(func() {
				for round := range 30 {
					i := (n + call + round) % len(inside)
					j := (i + 1 + round%(len(inside)-1)) % len(inside)
					keys := []string{strconv.Itoa(i), strconv.Itoa(j)}
					if err := g.DoAll(t.Context(), keys, func(context.Context) error {
						for _, at := range []int{i, j} {
							c := &inside[at]
							defer c.leave(&c.writers)
							if err := c.enter(&c.writers); err != nil {
								return err
							}
						}
						return nil
					}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// A key with several owners has room for nobody who must own it alone, in a
// request for several keys too.
func TestSeveralKeysStopAtASharedOne(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	open(t, a, silent{})
	open(t, b, silent{})
	shared := claim("2")
	shared.Limit = locker.NoLimit
	acquire(t, b, shared, locker.Try{})
	cs := []*locker.Claim{claim("1"), claim("2"), claim("3")}
	as, held, err := a.AcquireAll(t.Context(), cs, true)
	if err != nil || held != 1 || !as[0].Acquired || as[1].Acquired || as[2].Acquired {
		t.Fatalf("%+v, held %d, %v, want the first key alone", as, held, err)
	}
	if as[1].Remaining <= 0 || as[1].Holder != (locker.Holder{}) {
		t.Errorf("%+v, want the time of the share and no holder", as[1])
	}
	if x := acquire(t, b, claim("3"), locker.Try{}); !x.Acquired {
		t.Errorf("%+v, want the key behind the shared one free", x)
	}
}
