package shop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk implements Inventory: every method says what it was called with, and
// answers as the test wants.
type desk struct {
	do func(ctx context.Context, call string) (int, error)
}

func (d desk) Left(ctx context.Context, sku string) (int, error)  { return d.do(ctx, "Left "+sku) }
func (d desk) Count(ctx context.Context, sku string) (int, error) { return d.do(ctx, "Count "+sku) }
func (d desk) Close(ctx context.Context) error                    { return second(d.do(ctx, "Close")) }

func (d desk) Pay(ctx context.Context, o *Order) error { return second(d.do(ctx, "Pay "+o.ID)) }
func (d desk) internal() int                           { return 42 }

func (d desk) Deduct(ctx context.Context, sku string, n int) (int, error) {
	return d.do(ctx, fmt.Sprint("Deduct ", sku, " ", n))
}

func (d desk) Move(ctx context.Context, from, to string, n int) (int, int, error) {
	left, err := d.do(ctx, fmt.Sprint("Move ", from, " ", to, " ", n))
	return left, left + n, err
}

func (d desk) Reserve(ctx context.Context, o *Order, until time.Time) error {
	return second(d.do(ctx, fmt.Sprint("Reserve ", o.GetSku(), " ", until.Unix())))
}

func (d desk) Bill(ctx context.Context, o Order) (float64, error) {
	n, err := d.do(ctx, "Bill "+o.ID)
	return float64(n) / 2, err
}

func (d desk) Drop(ctx context.Context, of SKU, also ...string) ([]string, error) {
	_, err := d.do(ctx, fmt.Sprint("Drop ", of, " ", also))
	return also, err
}

func (d desk) Odd(ctx context.Context, a string, b int, c, e bool, f any) (string, error) {
	n, err := d.do(ctx, fmt.Sprint("Odd ", a, b, c, e, f))
	return strconv.Itoa(n), err
}

func (d desk) Label(ctx context.Context, sku string) (string, error) {
	n, err := d.do(ctx, "Label "+sku)
	return strconv.Itoa(n), err
}

func second(_ int, err error) error { return err }

// watch is an observer that writes down names and keys of those that hold. Safe
// for concurrent use.
type watch struct {
	guard.NopObserver
	mu    sync.Mutex // guards holds
	holds []string
}

func (w *watch) HoldStart(ctx context.Context, i guard.WaitInfo) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds = append(w.holds, i.Name+" "+i.Key)
	return ctx
}

func (w *watch) take() (holds []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	holds, w.holds = w.holds, nil
	return holds
}

// newGuard returns a guard in memory, to be closed when the test ends.
func newGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.New(t, memlocker.New(), opts...)
}

func TestEveryCallHasItsKeyItsNameAndItsArguments(t *testing.T) {
	w := &watch{}
	var called string
	var answer error
	type callers struct{} // marks the caller's ctx
	inv := GuardInventory(newGuard(t, guard.WithObserver(w)),
		desk{do: func(ctx context.Context, call string) (int, error) {
			if called = call; ctx.Value(callers{}) == nil {
				t.Errorf("%s runs with another ctx", call)
			}
			return 7, answer
		}})
	order := &Order{ID: "o:1", Customer: &Customer{Number: 12}}
	type list = []any
	for want, c := range map[string]struct {
		call  func(ctx context.Context) list
		holds []string
		value list
	}{
		"Deduct a%:b 3": {
			func(ctx context.Context) list { left, err := inv.Deduct(ctx, "a%:b", 3); return list{left, err} },
			[]string{"Inventory.Deduct " + guard.Key("stock", "a%:b")},
			list{7},
		},
		"Pay o:1": {
			func(ctx context.Context) list { return list{inv.Pay(ctx, order)} },
			[]string{"Inventory.Pay " + guard.Key("order", "o:1")},
			nil,
		},
		"Move z a 2": {
			func(ctx context.Context) list { x, y, err := inv.Move(ctx, "z", "a", 2); return list{x, y, err} },
			[]string{"transfer " + guard.Key("stock", "a"), "transfer " + guard.Key("stock", "z")},
			list{7, 9},
		},
		"Reserve o:1 60": {
			func(ctx context.Context) list { return list{inv.Reserve(ctx, order, time.Unix(60, 0))} },
			[]string{"Inventory.Reserve " + guard.Key("sku", "o:1")},
			nil,
		},
		"Bill o:1": {
			func(ctx context.Context) list { total, err := inv.Bill(ctx, *order); return list{total, err} },
			[]string{"Inventory.Bill " + guard.Key("customer", "no-12", "o:1")},
			list{3.5},
		},
		"Drop g/i [x y]": {
			func(ctx context.Context) list { d, err := inv.Drop(ctx, SKU{"g", "i"}, "x", "y"); return list{d, err} },
			[]string{"Inventory.Drop " + guard.Key("group", "g/i")},
			list{[]string{"x", "y"}},
		},
		"Odd a1 true false <nil>": {
			func(ctx context.Context) list { s, err := inv.Odd(ctx, "a", 1, true, false, nil); return list{s, err} },
			[]string{"Inventory.Odd " + guard.Key("stock", "a", 1)},
			list{"7"},
		},
		"Label 100%:": {
			func(ctx context.Context) list { s, err := inv.Label(ctx, "100%:"); return list{s, err} },
			[]string{"Inventory.Label " + guard.Key("label", "l-100%:-x")},
			list{"7"},
		},
		"Close": {
			func(ctx context.Context) list { return list{inv.Close(ctx)} },
			[]string{"Inventory.Close " + guard.Key("everything")},
			nil,
		},
		"Count a": {
			func(ctx context.Context) list { n, err := inv.Count(ctx, "a"); return list{n, err} },
			[]string{"Inventory.Count " + guard.Key("stock", "a")},
			list{7},
		},
		"Left a": {
			func(ctx context.Context) list { n, err := inv.Left(ctx, "a"); return list{n, err} },
			nil,
			list{7}, // no directive, no lock
		},
	} {
		for _, answer = range []error{nil, errors.New("sold out")} {
			got := c.call(context.WithValue(t.Context(), callers{}, true))
			if value := append(slices.Clone(c.value), answer); !reflect.DeepEqual(got, value) {
				t.Errorf("%s returns %v, want %v", want, got, value)
			}
			if holds := w.take(); called != want || !slices.Equal(holds, c.holds) {
				t.Errorf("called %q under %q, want %q under %q", called, holds, want, c.holds)
			}
		}
	}
	if inv.internal() != 42 {
		t.Error("a method without directive is not next's own")
	}
}

func TestATemplateIsTheKeyOfTheMiddleware(t *testing.T) {
	w := &watch{}
	inv := GuardInventory(newGuard(t, guard.WithObserver(w)), desk{do: func(context.Context, string) (int, error) {
		return 0, nil
	}})
	for _, sku := range []string{"4711", "a:b", "100%", "%3A", "ä b"} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		keyfunc.SetPath(r, "sku", sku)
		_, _ = inv.Count(t.Context(), sku)
		_, _ = inv.Label(t.Context(), sku)
		for i, template := range []string{"stock:{sku}", "label:l-{sku}-x"} {
			key, err := keyfunc.MustParse(template)(r)
			name := []string{"Inventory.Count ", "Inventory.Label "}[i]
			if got := w.holds[i]; err != nil || got != name+key {
				t.Errorf("%s of %q: held %q, the middleware's key is %q, %v", template, sku, got, key, err)
			}
		}
		w.take()
	}
}

func TestAMissingValueIsNoKeyForEverybody(t *testing.T) {
	inv := GuardInventory(newGuard(t), desk{do: func(context.Context, string) (int, error) {
		t.Error("ran without a key")
		return 0, nil
	}})
	ctx := t.Context()
	_, deduct := inv.Deduct(ctx, "", 1)
	_, label := inv.Label(ctx, "")
	for i, err := range []error{deduct, label, inv.Reserve(ctx, nil, time.Time{}), inv.Pay(ctx, &Order{})} {
		if !errors.Is(err, guard.ErrInvalidKey) {
			t.Errorf("%d: got %v, want ErrInvalidKey", i, err)
		}
	}
}

// block returns a desk that stays in its first call until release is called,
// and says when it is there.
func block() (d desk, inside chan struct{}, release func()) {
	inside, gate := make(chan struct{}), make(chan struct{})
	return desk{do: func(ctx context.Context, _ string) (int, error) {
		close(inside) // a second call panics
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return 5, context.Cause(ctx)
	}}, inside, sync.OnceFunc(func() { close(gate) })
}

func TestTheOptionsOfADirectiveHold(t *testing.T) {
	for name, c := range map[string]struct {
		call    func(ctx context.Context, inv Inventory) error
		others  int           // calls that wait already
		want    error         // of the call
		refused time.Duration // when it comes back
	}{
		"wait=200ms": {func(ctx context.Context, inv Inventory) error {
			return second(inv.Deduct(ctx, "a", 1))
		}, 0, guard.ErrNotAcquired, 200 * time.Millisecond},
		"wait=1s": {func(ctx context.Context, inv Inventory) error {
			_, err := inv.Label(ctx, "a")
			return err
		}, 0, guard.ErrNotAcquired, time.Second},
		"wait=0s": {func(ctx context.Context, inv Inventory) error {
			return inv.Pay(ctx, &Order{ID: "a"})
		}, 0, guard.ErrNotAcquired, 0},
		"no wait=": {func(ctx context.Context, inv Inventory) error {
			return inv.Close(ctx)
		}, 0, guard.ErrNotAcquired, 3 * time.Second},
		"waiters=10": {func(ctx context.Context, inv Inventory) error {
			_, _, err := inv.Move(ctx, "a", "a", 1)
			return err
		}, 10, guard.ErrQueueFull, 0},
		"no waiters=": {func(ctx context.Context, inv Inventory) error {
			return second(inv.Count(ctx, "a"))
		}, 11, guard.ErrNotAcquired, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, inside, release := block()
				inv := GuardInventory(newGuard(t), d)
				var wg sync.WaitGroup
				wg.Go(func() { _ = c.call(t.Context(), inv) })
				<-inside
				for range c.others {
					wg.Go(func() { _ = c.call(t.Context(), inv) })
				}
				synctest.Wait()
				start := time.Now()
				err := c.call(t.Context(), inv)
				if took := time.Since(start); !errors.Is(err, c.want) || took != c.refused {
					t.Errorf("got %v after %v, want %v after %v", err, took, c.want, c.refused)
				}
				time.Sleep(4 * time.Second) // the others give up too
				release()
				wg.Wait()
			})
		})
	}
}

func TestTheOptionsOfALeaseHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside func(ctx context.Context)
		inv := GuardInventory(newGuard(t), desk{do: func(ctx context.Context, _ string) (int, error) {
			inside(ctx)
			return 0, context.Cause(ctx)
		}})

		inside = func(ctx context.Context) {
			l, ok := guard.LeaseFrom(ctx)
			if !ok || time.Until(l.Deadline()) < 27*time.Second {
				t.Errorf("ttl=30s: trusted for %v", time.Until(l.Deadline()))
			}
		}
		if err := inv.Pay(t.Context(), &Order{ID: "a"}); err != nil {
			t.Error(err)
		}

		start := time.Now()
		inside = func(ctx context.Context) { <-ctx.Done() }
		_, _, err := inv.Move(t.Context(), "a", "b", 1) // norenew: it ends with the TTL of 10 s, not with hold=90s
		if took := time.Since(start); !errors.Is(err, guard.ErrLeaseLost) || took > 10*time.Second ||
			took < 9*time.Second {
			t.Errorf("norenew: got %v after %v, want ErrLeaseLost after 9 to 10 s", err, took)
		}

		start = time.Now()
		err = inv.Close(t.Context()) // renewed, up to the MaxHold of 60 s
		if took := time.Since(start); !errors.Is(err, guard.ErrMaxHold) || took != time.Minute {
			t.Errorf("got %v after %v, want ErrMaxHold after 1m0s", err, took)
		}
	})
}

func TestResultsAreKeptBesideALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv := GuardInventory(newGuard(t), desk{do: func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			return 5, errors.New("late")
		}})
		left, right, err := inv.Move(t.Context(), "a", "b", 1)
		if left != 5 || right != 6 || !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %d, %d, %v", left, right, err)
		}
	})
}

func TestAPanicPassesThroughAndFreesTheKey(t *testing.T) {
	inv := GuardInventory(newGuard(t), desk{do: func(context.Context, string) (int, error) { panic("own") }})
	for _, call := range []string{"the first", "the second, which gets the key"} {
		testguard.Panics(t, call, func() { _ = inv.Pay(t.Context(), &Order{ID: "a"}) }) // wait=0s
	}
}

func TestADecoratedCallRunsInsideAnotherOnItsKey(t *testing.T) {
	var inv Inventory
	inv = GuardInventory(newGuard(t, guard.WithMaxWait(0)),
		desk{do: func(ctx context.Context, call string) (int, error) {
			if call == "Count a" {
				return inv.Deduct(ctx, "a", 1)
			}
			return 3, nil
		}})
	if n, err := inv.Count(t.Context(), "a"); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

// shelf implements Shelf.
type shelf[K ~string | ~int, V any] map[K]V

func (s shelf[K, V]) Get(_ context.Context, k K) (V, error) { return s[k], nil }
func (s shelf[K, V]) Put(_ context.Context, k K, v V) (old V, err error) {
	old, s[k] = s[k], v
	return old, nil
}

func TestTypeParametersMakeKeys(t *testing.T) {
	w := &watch{}
	g := newGuard(t, guard.WithObserver(w))
	ctx := t.Context()
	numbers := GuardShelf(g, Shelf[int, string](shelf[int, string]{7: "x"}))
	words := GuardShelf(g, Shelf[string, []int](shelf[string, []int]{}))
	old, err := numbers.Put(ctx, 7, "y")
	if v, err2 := numbers.Get(ctx, 7); old != "x" || v != "y" || err != nil || err2 != nil {
		t.Errorf("got %q, %v and %q, %v", old, err, v, err2)
	}
	_, _ = words.Put(ctx, "a", []int{1})
	want := []string{
		"Shelf.Put " + guard.Key("shelf", 7), "Shelf.Get " + guard.Key("shelf", 7),
		"Shelf.Put " + guard.Key("shelf", "a"),
	}
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("held %q, want %q", got, want)
	}
	// A type that no key can be made of is refused when it is called, never run
	// without a lock.
	floats := GuardGetter(g, Getter[float64, string](getter{t}))
	if _, err := floats.Get(ctx, 1.5); !errors.Is(err, guard.ErrInvalidKey) {
		t.Errorf("got %v, want ErrInvalidKey", err)
	}
}

type getter struct{ t *testing.T }

func (g getter) Get(context.Context, float64) (string, error) {
	g.t.Error("ran without a key")
	return "", nil
}

type runner struct{}

func (runner) Run(context.Context, uint8) error    { return nil }
func (runner) Select(context.Context, uint8) error { return nil }
func (runner) onRun()                              {}
func (runner) do(context.Context, bool) error      { return nil }

func TestNamesThatClashAreToldApart(t *testing.T) {
	w := &watch{}
	g := newGuard(t, guard.WithObserver(w))
	r, h := GuardRun(g, runner{}), guardHidden(g, runner{})
	r.onRun()
	if err := errors.Join(r.Run(t.Context(), 1), r.Select(t.Context(), 2), h.do(t.Context(), true)); err != nil {
		t.Error(err)
	}
	want := []string{
		"Run.Run " + guard.Key("run", 1), "Run.Select " + guard.Key("run", 2),
		"hidden.do " + guard.Key(true),
	}
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("held %q, want %q", got, want)
	}
}

func TestFunctionsUseTheDefaultGuard(t *testing.T) {
	ran := false
	step = func(_ context.Context, what, key string, n int) (int, error) {
		ran = true
		return n + 1, nil
	}
	defer func() { step = nil }()
	guard.SetDefault(nil)
	if _, err := RestockLocked(t.Context(), "a", 1); !errors.Is(err, guard.ErrNoDefault) || ran {
		t.Errorf("without a default: %v, ran: %v", err, ran)
	}

	w := &watch{}
	guard.SetDefault(newGuard(t, guard.WithObserver(w)))
	defer guard.SetDefault(nil)
	var items []string
	n, err := RestockLocked(t.Context(), "a", 1)
	err2 := GuardedAppend(t.Context(), "l", &items, "x", "y")
	if n != 2 || !slices.Equal(items, []string{"x", "y"}) || err != nil || err2 != nil {
		t.Errorf("got %d, %v and %q, %v", n, err, items, err2)
	}
	want := []string{"shop.Restock " + guard.Key("stock", "a"), "shop.appendTo " + guard.Key("list", "l")}
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("held %q, want %q", got, want)
	}
}
