package explore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// An order and a note for the others are written in one transaction. The relay,
// of which one leads, tells the others.
func relaying(relay func(tell, strike func() error) error) func(*explore.World) {
	return func(w *explore.World) {
		ordered, noted, told := 0, 0, 0
		w.Go("order", func(ctx context.Context, _ *guard.Guard) error {
			return w.Step(ctx, "order and note", func() error { ordered++; noted++; return nil })
		})
		w.Background("relay", func(ctx context.Context, g *guard.Guard) error {
			return g.Lead(ctx, "relay", func(ctx context.Context) error {
				for ctx.Err() == nil {
					open := 0
					err := w.Step(ctx, "look", func() error { open = noted; return nil })
					if err == nil && open > 0 {
						err = relay(
							func() error { return w.Step(ctx, "tell", func() error { told++; return nil }) },
							func() error { return w.Step(ctx, "strike out", func() error { noted = 0; return nil }) })
					}
					if err != nil {
						return err
					}
					select {
					case <-ctx.Done():
					case <-time.After(10 * time.Second):
					}
				}
				return ctx.Err()
			})
		})
		w.Check(func() error {
			if ordered > 0 && told == 0 {
				return errors.New("an order that nobody heard of")
			}
			return nil
		})
	}
}

func TestBackgroundIsStartedAgain(t *testing.T) {
	judge(t, relaying(func(tell, strike func() error) error {
		if err := strike(); err != nil {
			return err
		}
		return tell()
	}), true)
	judge(t, relaying(tellFirst), false)
}

func tellFirst(tell, strike func() error) error {
	if err := tell(); err != nil {
		return err
	}
	return strike()
}

// Three pauses are longer than the minute that Background has at the end.
func TestBackgroundHasTimeAfterTheLastFault(t *testing.T) {
	t.Setenv("EXPLORE", "relay/take-relay=long-pause; relay/take-relay#2=long-pause; relay/tell=long-pause")
	explore.Test(t, relaying(tellFirst))
}
