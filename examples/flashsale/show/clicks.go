package show

import (
	"context"
	"net/http"
	"sync"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// clicks counts the orders that were sent twice. A nil *clicks counts none.
// Safe for concurrent use.
type clicks struct {
	mu           sync.Mutex // guards all fields
	sent         int
	contradicted int
}

// twice reports whether the i-th order is sent twice.
func (c *clicks) twice(i int) bool { return c != nil && i%10 == 0 }

// best returns the answer that the buyer goes by, and counts two answers that
// contradict each other.
func (c *clicks) best(first, second answer) answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	if first.final() && second.final() && !first.agrees(second) {
		c.contradicted++
	}
	if !first.final() && second.final() {
		return second
	}
	return first
}

func (c *clicks) counts() (sent, contradicted int) {
	if c == nil {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent, c.contradicted
}

// final says that the buyer knows whether the item was sold. A call that was
// refused by the guard may be tried again.
func (a answer) final() bool {
	return a.status == http.StatusOK && a.Code == shop.CodeSold || a.Code == shop.CodeSoldOut
}

func (a answer) agrees(b answer) bool {
	if a.Receipt == nil || b.Receipt == nil {
		return a.Receipt == b.Receipt
	}
	return *a.Receipt == *b.Receipt
}

// both sends an order to two instances at the same time. It returns when both
// have answered.
func (b *buyers) both(ctx context.Context, order string, at, next *instance) (first, second answer) {
	var wg sync.WaitGroup
	wg.Go(func() { second = b.one(ctx, order, next) })
	first = b.one(ctx, order, at)
	wg.Wait()
	return first, second
}
