package lockmw

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/leasekey"
)

// exchange is a request as [httpguard.Serve] sees it.
type exchange struct {
	c   *gin.Context
	key func(*gin.Context) (string, error)
}

func (x *exchange) Request() *http.Request { return x.c.Request }
func (x *exchange) Key() (string, error)   { return x.key(x.c) }
func (x *exchange) Begun() bool            { return x.c.Writer.Written() }
func (x *exchange) Route() string          { return route(x.c) }

// Next runs the rest of the chain under l.
func (x *exchange) Next(l *guard.Lease) {
	c, outer := x.c, x.c.Request
	before, _ := c.Get(leasekey.Key)
	c.Set(leasekey.Key, l) // so that a handler may pass c itself as the context
	c.Request = outer.WithContext(l.Context())
	defer func() {
		httpguard.GiveBack(outer, c.Request)
		c.Request = outer
		c.Set(leasekey.Key, before)
	}()
	c.Next()
}
