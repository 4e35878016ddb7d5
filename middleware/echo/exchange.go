package lockmw

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// exchange is a request as [httpguard.Lock] sees it.
type exchange struct {
	c    echo.Context
	keys func(*exchange) (httpguard.Keys, error)
	next echo.HandlerFunc
	err  error // returned by next
}

// exchanges are reused, as echo reuses its contexts. No exchange is referred to
// after its request.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func (x *exchange) Request() *http.Request        { return x.c.Request() }
func (x *exchange) Keys() (httpguard.Keys, error) { return x.keys(x) }
func (x *exchange) Begun() bool                   { return x.c.Response().Committed }
func (x *exchange) Pattern() string               { return x.c.Path() }
func (x *exchange) Failed() bool                  { return x.c.Response().Status >= 400 || !x.Begun() && x.err != nil }

// Next serves the request under l.
func (x *exchange) Next(l *guard.Lease) {
	outer := x.c.Request()
	x.c.SetRequest(outer.WithContext(l.Context()))
	defer func() {
		httpguard.GiveBack(outer, x.c.Request())
		x.c.SetRequest(outer)
	}()
	x.err = x.next(x.c)
}

// unmatched reports whether err was caused by a request for which the router
// found no route. In e.Use next is then one of echo's own handlers. If there is
// a path with parameters, they have no values.
func unmatched(c echo.Context, err error) bool {
	return errors.Is(err, keyfunc.ErrNoSource) && len(c.ParamNames()) == 0 &&
		(c.Path() == "" || strings.ContainsAny(c.Path(), ":*"))
}

// Param implements [keyfunc.Params]. It decodes the parameter, because echo
// matches a path of unusual spelling as it was sent and does not decode
// parameters then.
func (x *exchange) Param(name string) (value string, present bool) {
	for i, known := range x.c.ParamNames() {
		if known == name {
			return httpguard.Decoded(x.c.ParamValues()[i], asSent(x.c)), true
		}
	}
	return "", false
}

func asSent(c echo.Context) bool { return c.Request().URL.RawPath != "" }

// setPath records the path parameters for [keyfunc.Path].
func setPath(c echo.Context) {
	values := c.ParamValues()
	for i, name := range c.ParamNames() {
		keyfunc.SetPath(c.Request(), name, httpguard.Decoded(values[i], asSent(c)))
	}
}
