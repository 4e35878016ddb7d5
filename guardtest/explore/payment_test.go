package explore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// bank is a payment service. If it knows keys, it charges once for each.
type bank struct {
	w       *explore.World
	knows   map[string]bool // nil: it takes no idempotency keys
	charges int
}

func (b *bank) charge(ctx context.Context, key string) (string, error) {
	err := b.w.Step(ctx, "charge", func() error {
		if b.knows != nil {
			if b.knows[key] {
				return nil
			}
			b.knows[key] = true
		}
		b.charges++
		return nil
	})
	return "receipt " + key, err
}

func (b *bank) atMostOnce() error {
	if b.charges > 1 {
		return fmt.Errorf("order 7 was charged %d times", b.charges)
	}
	return nil
}

// paying is a scenario: a client wants order 7 paid.
func paying(pay func(ctx context.Context, g *guard.Guard, b *bank) error, keys bool) func(*explore.World) {
	return func(w *explore.World) {
		b := &bank{w: w}
		if keys {
			b.knows = make(map[string]bool)
		}
		w.Deliver("pay", func(ctx context.Context, g *guard.Guard) error { return pay(ctx, g, b) })
		w.Check(b.atMostOnce)
	}
}

func payWithDo(ctx context.Context, g *guard.Guard, b *bank) error {
	return g.Do(ctx, "pay:7", func(ctx context.Context) error {
		_, err := b.charge(ctx, "7")
		return err
	})
}

func payWithOnce(ctx context.Context, g *guard.Guard, b *bank) error {
	_, err := guard.Once(ctx, g, "pay:7", 24*time.Hour, func(ctx context.Context) (string, error) {
		return b.charge(ctx, "7")
	})
	return err
}

func payAtMostOnce(ctx context.Context, g *guard.Guard, b *bank) error {
	err := payWithOnce(ctx, g.With(guard.WithAtMostOnce()), b)
	if errors.Is(err, guard.ErrInterrupted) {
		return nil // somebody has to look
	}
	return err
}

func TestPayment(t *testing.T) {
	for name, c := range map[string]struct {
		scenario func(*explore.World)
		opts     []explore.Option
		breaks   bool
	}{
		"Do":                        {paying(payWithDo, false), nil, true},
		"Do, the bank knows keys":   {paying(payWithDo, true), nil, false},
		"Once":                      {paying(payWithOnce, false), nil, true},
		"Once, the bank knows keys": {paying(payWithOnce, true), nil, false},
		"AtMostOnce":                {paying(payAtMostOnce, false), nil, false},
		"AtMostOnce, a store that forgets": {
			paying(payAtMostOnce, false), []explore.Option{explore.StoreMayForget()}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			judge(t, c.scenario, c.breaks, c.opts...)
		})
	}
}

// deep is for a search by night.
var deep = flag.Int("runs", 0, "how many runs a scenario that holds gets, instead of the usual number")

// judge fails t if Find does not find what it should.
func judge(t *testing.T, scenario func(*explore.World), breaks bool, opts ...explore.Option) string {
	t.Helper()
	var st explore.Stats
	runs := explore.Depth(400, 60)
	if breaks {
		runs = 2000
	}
	opts = append([]explore.Option{explore.Runs(runs), explore.Count(&st)}, opts...)
	if *deep > 0 {
		opts = append(opts, explore.Runs(*deep))
	}
	story := explore.Find(t, scenario, opts...)
	t.Logf("%+v, %.0f runs/s\n%s", st, float64(st.Runs)/st.Took.Seconds(), story)
	if (story != "") != breaks {
		t.Errorf("broken: %d, want any: %t", st.Broken, breaks)
	}
	if st.Contrary > 0 {
		t.Errorf("%d runs with the same trace did not end alike", st.Contrary)
	}
	return story
}
