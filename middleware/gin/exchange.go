package lockmw

import (
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// exchange is a request as [httpguard.Lock] sees it.
type exchange struct {
	c    *gin.Context
	lock *httpguard.Lock
	keys httpguard.Source
}

// exchanges are reused, as gin reuses its contexts. No exchange is referred to
// after its request.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func (x *exchange) Request() *http.Request        { return x.c.Request }
func (x *exchange) Context() *gin.Context         { return x.c }
func (x *exchange) Params() keyfunc.Params        { return x }
func (x *exchange) Keys() (httpguard.Keys, error) { return x.keys.Keys(x) }
func (x *exchange) Begun() bool                   { return x.c.Writer.Written() }
func (x *exchange) Pattern() string               { return x.c.FullPath() }

// Failed also returns true if the handler has left an error in c.Errors for an
// outer middleware to answer.
func (x *exchange) Failed() bool {
	return x.c.Writer.Status() >= 400 || !x.c.Writer.Written() && len(x.c.Errors) > 0
}

// Param implements [keyfunc.Params].
func (x *exchange) Param(name string) (value string, present bool) { return x.c.Params.Get(name) }

// SetPath records the path parameters for [keyfunc.Path].
func (x *exchange) SetPath() {
	for _, p := range x.c.Params {
		keyfunc.SetPath(x.c.Request, p.Key, p.Value)
	}
}

// Next runs the rest of the chain under l.
func (x *exchange) Next(l *guard.Lease) {
	c, outer := x.c, x.c.Request
	lease, _ := c.Get(ctxkey.Key)
	self, _ := c.Get(ctxkey.Endless)
	lock, _ := c.Get(lockKey)
	c.Set(ctxkey.Key, l) // so that a handler may pass c itself as the context
	c.Set(ctxkey.Endless, c)
	c.Set(lockKey, x.lock) // for Abort
	c.Request = outer.WithContext(l.Context())
	defer func() {
		httpguard.GiveBack(outer, c.Request)
		c.Request = outer
		c.Set(ctxkey.Key, lease)
		c.Set(ctxkey.Endless, self)
		c.Set(lockKey, lock)
	}()
	c.Next()
}
