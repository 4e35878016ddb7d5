package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
	"github.com/go-lockguard/guard/internal/testsize"
)

// The code of testing-crashes.md, and the stories that it shows.

type charger interface {
	Charge(ctx context.Context, order string) (receipt string, err error)
}

// A fake of the payment service. What it does outside the process is a Step.
type bank struct {
	w       *explore.World
	charges int
}

func (b *bank) Charge(ctx context.Context, order string) (receipt string, err error) {
	err = b.w.Step(ctx, "charge", func() error { b.charges++; return nil })
	return "receipt of " + order, err
}

// The scenario: a client wants order 7 paid, and tries again until it is.
func payment(pay func(ctx context.Context, g *guard.Guard, c charger) error) func(w *explore.World) {
	return func(w *explore.World) {
		b := &bank{w: w}
		w.Deliver("pay", func(ctx context.Context, g *guard.Guard) error { return pay(ctx, g, b) })
		w.Check(func() error {
			if b.charges > 1 {
				return fmt.Errorf("order 7 was charged %d times", b.charges)
			}
			return nil
		})
	}
}

func payUnderLock(ctx context.Context, g *guard.Guard, c charger) error {
	return g.Do(ctx, "pay:7", func(ctx context.Context) error {
		_, err := c.Charge(ctx, "7")
		return err
	})
}

func payOnce(ctx context.Context, g *guard.Guard, c charger) error {
	_, err := guard.Once(ctx, g, "pay:7", 24*time.Hour, func(ctx context.Context) (string, error) {
		return c.Charge(ctx, "7")
	})
	return err
}

func payAtMostOnce(ctx context.Context, g *guard.Guard, c charger) error {
	err := payOnce(ctx, g.With(guard.WithAtMostOnce()), c)
	if errors.Is(err, guard.ErrInterrupted) {
		return nil // somebody has to ask the bank, and then call g.Forget
	}
	return err
}

func TestPayment(t *testing.T) {
	page, err := os.ReadFile("testing-crashes.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Do", func(t *testing.T) {
		story, _, _ := strings.Cut(explore.Find(t, payment(payUnderLock)), "also:")
		if !strings.Contains(string(page), "```\n"+story+"```\n") {
			t.Errorf("the page does not show this story:\n%s", story)
		}
	})
	t.Run("Once", func(t *testing.T) {
		if story := explore.Find(t, payment(payOnce)); !strings.Contains(story, "EXPLORE='pay/charge=crash'") {
			t.Errorf("the page tells of another story: %s", story)
		}
	})
	t.Run("AtMostOnce", func(t *testing.T) {
		explore.Test(t, payment(payAtMostOnce), explore.Runs(testsize.Pick(2000, 300)))
	})
	t.Run("AtMostOnceForgotten", func(t *testing.T) {
		if explore.Find(t, payment(payAtMostOnce), explore.StoreMayForget()) == "" {
			t.Error("a mark that the store forgets does not matter")
		}
	})
}
