package lockmw

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// exchange is a request as [httpguard.Serve] sees it.
type exchange struct {
	c    echo.Context
	key  func(echo.Context) (string, error)
	next echo.HandlerFunc
	err  error // next's
}

func (x *exchange) Request() *http.Request { return x.c.Request() }
func (x *exchange) Key() (string, error)   { return x.key(x.c) }
func (x *exchange) Begun() bool            { return x.c.Response().Committed }
func (x *exchange) Route() string          { return route(x.c) }

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

func route(c echo.Context) string { return c.Request().Method + " " + c.Path() }

// unmatched reports whether err is there because the router found no route, in e.Use: then next is one of echo's own
// handlers, and a path with parameters, if there is a path, has none.
func unmatched(c echo.Context, err error) bool {
	return errors.Is(err, keyfunc.ErrNoSource) && len(c.ParamNames()) == 0 &&
		(c.Path() == "" || strings.ContainsAny(c.Path(), ":*"))
}

// setPath records the path parameters for [keyfunc.Path], decoded: echo matches a path of unusual spelling as it was sent,
// and leaves the parameters like that.
func setPath(c echo.Context) {
	r, values := c.Request(), c.ParamValues()
	for i, name := range c.ParamNames() {
		value := values[i]
		if r.URL.RawPath != "" {
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
		}
		keyfunc.SetPath(r, name, value)
	}
}
