package shop

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// bank implements Payments.
type bank struct{ charges, quotes int }

func (b *bank) Charge(_ context.Context, o *Order) (string, error) {
	b.charges++
	return fmt.Sprint("receipt ", b.charges, " of ", o.ID), nil
}

func (b *bank) Quote(_ context.Context, sku string) (*Order, error) {
	b.quotes++
	return &Order{ID: sku, Tags: []string{strconv.Itoa(b.quotes)}}, nil
}

func TestAMethodWithOnceRunsOnceForEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{}
		p := GuardPayments(newGuard(t), b)
		for _, c := range []struct{ id, want string }{
			{"a", "receipt 1 of a"}, {"a", "receipt 1 of a"}, {"b", "receipt 2 of b"},
		} {
			if got, err := p.Charge(t.Context(), &Order{ID: c.id}); got != c.want || err != nil {
				t.Errorf("%s: got %q, %v, want %q", c.id, got, err, c.want)
			}
		}
		time.Sleep(24 * time.Hour)
		if got, err := p.Charge(t.Context(), &Order{ID: "a"}); got != "receipt 3 of a" || err != nil {
			t.Errorf("after a day: got %q, %v", got, err)
		}
		for range 2 {
			if o, err := p.Quote(t.Context(), "x"); err != nil || o.ID != "x" || o.Tags[0] != "1" {
				t.Errorf("got %+v, %v", o, err)
			}
		}
	})
}
