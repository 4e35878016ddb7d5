package lockmw

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// exchange is a request as [httpguard.Lock] sees it.
type exchange struct {
	c    *echo.Context
	keys func(*exchange) (httpguard.Keys, error)
	next echo.HandlerFunc
	err  error // returned by next
}

// exchanges are reused, as echo reuses its contexts. No exchange is referred to
// after its request.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func (x *exchange) Request() *http.Request        { return x.c.Request() }
func (x *exchange) Keys() (httpguard.Keys, error) { return x.keys(x) }
func (x *exchange) Begun() bool                   { return begun(x.c) }
func (x *exchange) Pattern() string               { return x.c.Path() }

func (x *exchange) Failed() bool {
	if !x.Begun() && x.err != nil {
		return true
	}
	_, status := echo.ResolveResponseStatus(x.c.Response(), nil)
	return status >= http.StatusBadRequest
}

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
// found no route. In e.Use next is then one of echo's own handlers.
func unmatched(c *echo.Context, err error) bool {
	if !errors.Is(err, keyfunc.ErrNoSource) {
		return false
	}
	name := c.RouteInfo().Name
	return name == echo.NotFoundRouteName || name == echo.MethodNotAllowedRouteName
}

// Param implements [keyfunc.Params].
func (x *exchange) Param(name string) (value string, present bool) {
	value, present = x.c.PathValues().Get(name)
	return httpguard.Decoded(value, asSent(x.c)), present
}

// setPath records the path parameters for [keyfunc.Path].
func setPath(c *echo.Context) {
	raw := asSent(c)
	for _, p := range c.PathValues() {
		keyfunc.SetPath(c.Request(), p.Name, httpguard.Decoded(p.Value, raw))
	}
}

// asSent reports whether the router has left the path parameters as they were
// sent. The router matches a path of unusual spelling as it was sent. A setting
// that we cannot read decides whether it then decodes the parameters. But only
// undecoded values fill the pattern to the length of the path.
func asSent(c *echo.Context) bool {
	sent := c.Request().URL.RawPath
	if sent == "" {
		return false
	}
	text, values := c.Path(), 0
	for _, p := range c.PathValues() {
		name := ":" + p.Name
		if p.Name == "*" {
			name = p.Name
		}
		text = strings.Replace(text, name, "", 1)
		values += len(p.Value)
	}
	return len(strings.ReplaceAll(text, `\:`, ":"))+values == len(sent)
}
