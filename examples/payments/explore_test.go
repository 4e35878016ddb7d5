package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
	"github.com/go-lockguard/guard/internal/testsize"
)

// bank is a provider whose charges are steps.
type bank struct {
	w       *explore.World
	blind   bool // it does not look at keys
	known   map[string]bool
	charges int
}

func (b *bank) charge(ctx context.Context, key, order string) (receipt string, err error) {
	err = b.w.Step(ctx, "charge", func() error {
		if b.blind || !b.known[key] {
			b.known[key] = true
			b.charges++
		}
		return nil
	})
	return "receipt of " + order, err
}

// paying is a client that sends one payment until it is answered, as client
// does.
func paying(blind bool, opts ...guard.Option) func(*explore.World) {
	return func(w *explore.World) {
		b, paid := &bank{w: w, blind: blind, known: make(map[string]bool)}, false
		w.Deliver("client", func(ctx context.Context, g *guard.Guard) error {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(`{"order":"7"}`))
			r.Header.Set("Authorization", "Bearer shop")
			r.Header.Set("Idempotency-Key", "4711")
			rec := httptest.NewRecorder()
			service(g.With(opts...), b, true).ServeHTTP(rec, r)
			w.Log(ctx, "answers %d", rec.Code)
			paid = paid || rec.Code == http.StatusCreated
			if rec.Code == http.StatusConflict || rec.Code >= http.StatusInternalServerError {
				return errors.New("try again")
			}
			return nil
		})
		w.Check(func() error {
			if b.charges > 1 || paid && b.charges == 0 {
				return fmt.Errorf("order 7 was charged %d times, and its client was told success: %t", b.charges, paid)
			}
			return nil
		})
	}
}

func TestAPaymentIsChargedOnceWhereverItsServiceDies(t *testing.T) {
	explore.Test(t, paying(false), explore.StoreMayForget(), explore.Runs(testsize.Pick(1000, 100)))
}

// The key of the provider is what makes the difference, or a mark before the
// charge.
func TestAProviderThatDoesNotKnowKeysChargesTwice(t *testing.T) {
	if explore.Find(t, paying(true)) == "" {
		t.Error("a crash behind the charge does not matter")
	}
	explore.Test(t, paying(true, guard.WithAtMostOnce()), explore.Runs(testsize.Pick(1000, 100)))
}
