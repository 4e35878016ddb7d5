package shop

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

// Page is the page of an item.
type Page struct {
	Left   int `json:"left"`
	Orders int `json:"orders"`
}

// Look makes the page of an item. It reads twice. A sale in between would give
// a stock and orders that do not add up, so the route has a shared lease: pages
// are made side by side, and never beside a sale.
func (s *Shop) Look(ctx context.Context, sku string) (Page, error) {
	left, err := s.Book.Read(ctx, sku, 0)
	if err != nil {
		return Page{}, because(ctx, err)
	}
	orders, err := s.Book.Orders(ctx)
	if err != nil {
		return Page{}, because(ctx, err)
	}
	// There is no fencing token for readers, so they look at their lease once
	// more.
	if lease, ok := guard.LeaseFrom(ctx); ok && lease.Err() != nil {
		return Page{}, lease.Err()
	}
	return Page{Left: left, Orders: len(orders)}, nil
}

// addPage is the route of Look, on the key of the sale.
func addPage(r gin.IRoutes, g *guard.Guard, s *Shop, mode Mode) {
	look := func(c *gin.Context) {
		page, err := s.Look(c.Request.Context(), c.Param("sku"))
		if err != nil {
			refuse(c, err)
			return
		}
		c.JSON(http.StatusOK, page)
	}
	if !mode.Locked() {
		r.GET("/skus/:sku", look)
		return
	}
	r.GET("/skus/:sku", lockmw.Key(g.With(guard.WithShared()), "stock:{sku}"), look)
}
