package show

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/guardtest"
)

// sellerFunc is a seller.
type sellerFunc func(ctx context.Context) error

func (f sellerFunc) Deduct(ctx context.Context, _, order string) (shop.Receipt, error) {
	return shop.Receipt{Order: order}, f(ctx)
}

func TestEveryStyleHoldsTheKeyOfTheRoute(t *testing.T) {
	for _, how := range []shop.Style{shop.StyleWrap, shop.StyleGenerated} {
		var ran atomic.Bool
		g := guardtest.New(t, guard.WithMaxWait(0))
		deduct := shop.Guarded(g.Guard, sellerFunc(func(ctx context.Context) error {
			ran.Store(true)
			l, ok := guard.LeaseFrom(ctx)
			if !ok || l.Key() != guard.Key("stock", "a:b") {
				t.Errorf("%s: no lease on the key", how)
			}
			return nil
		}), how)
		if r, err := deduct(t.Context(), "a:b", "7"); err != nil || r.Order != "7" || !ran.Load() {
			t.Errorf("%s: got %v, %v", how, r, err)
		}
		ran.Store(false)
		release := g.Hold(guard.Key("stock", "a:b"))
		if _, err := deduct(t.Context(), "a:b", "8"); err == nil || ran.Load() {
			t.Errorf("%s: ran while somebody else held the key", how)
		}
		release()
	}
}
