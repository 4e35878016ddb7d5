package show

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// viewPause is between two looks of a viewer.
const viewPause = 10 * time.Millisecond

// views are the pages of the item that were looked at while it was sold.
type views struct {
	seen int
	odd  int // with a stock and orders that do not add up
}

// startViewers looks at the page of the item again and again, at each instance,
// until stop is called. stop blocks until the looks under way have ended. Each
// viewer looks at least once.
func (s *sale) startViewers(ctx context.Context) (stop func() views) {
	ending := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex // guards all
	var all views
	for _, in := range s.fleet {
		wg.Go(func() {
			for {
				var page shop.Page
				err := in.get(ctx, s.buyers.http, "/skus/"+url.PathEscape(shop.SKU), &page)
				if err == nil {
					mu.Lock()
					all.seen++
					if page.Left+page.Orders != s.cfg.stock {
						all.odd++
					}
					mu.Unlock()
				}
				select {
				case <-ending:
					return
				case <-ctx.Done():
					return
				case <-time.After(viewPause):
				}
			}
		})
	}
	return func() views {
		close(ending)
		wg.Wait()
		return all
	}
}
