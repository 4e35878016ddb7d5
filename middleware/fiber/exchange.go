package lockmw

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// exchange is a request as [httpguard.Lock] sees it.
type exchange struct {
	c    fiber.Ctx
	lock *httpguard.Lock
	keys httpguard.Source
	req  *http.Request
	url  url.URL // of a light req
	bad  error   // why req is not whole
	err  error   // returned by the handler

	route string // its pattern, once the chain runs; an abandoned c must not be asked

	stream *stream // the body of req; nil if it is in memory
}

// exchanges are reused, as fiber reuses its contexts. No exchange is referred
// to after its request.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func (x *exchange) Request() *http.Request { return x.req }
func (x *exchange) Context() fiber.Ctx     { return x.c }
func (x *exchange) Params() keyfunc.Params { return x }

func (x *exchange) Pattern() string {
	if abandoned(x.c) {
		return x.route
	}
	return x.c.Route().Path
}

// Begun reports whether another answer than the response of c is sent. fiber
// sends that when all handlers have returned, so it never begins before.
func (x *exchange) Begun() bool { return abandoned(x.c) }

// abandoned reports whether a timeout has answered for c. Its handler may run
// on in another goroutine then and use c, so nothing may read or change c but
// what is safe for concurrent use.
func abandoned(c fiber.Ctx) bool {
	return c.IsAbandoned() || c.RequestCtx().LastTimeoutErrorResponse() != nil
}

// Keys also takes a body of unknown length from the lock, which would otherwise
// read it ahead. If the body is longer than the limit, fasthttp cannot take it
// back.
func (x *exchange) Keys() (httpguard.Keys, error) {
	keys, err := x.derive()
	if x.req.ContentLength < 0 {
		x.req.Body = http.NoBody
	}
	return keys, err
}

// derive returns the keys of the request.
func (x *exchange) derive() (keys httpguard.Keys, err error) {
	err = x.sound(func() error {
		keys, err = x.keys.Keys(x)
		return err
	})
	return keys, err
}

// sound calls a function that derives something of the request. Its error says
// too that the request is not whole, or that the handler cannot have its body.
func (x *exchange) sound(derive func() error) error {
	if x.bad != nil {
		return x.bad
	}
	err := derive()
	if broken := x.stream.broken(); broken != nil && err == nil {
		err = broken // the function has swallowed it
	}
	return err
}

func (x *exchange) Failed() bool {
	return x.err != nil || abandoned(x.c) || x.c.Response().StatusCode() >= http.StatusBadRequest
}

// Next runs the rest of the chain under l.
func (x *exchange) Next(l *guard.Lease) {
	c, in := x.c, x.c.RequestCtx()
	x.route = c.Route().Path
	outer, lease, lock := c.Context(), in.UserValue(leaseKey), in.UserValue(lockKey)
	c.SetContext(l.Context())
	in.SetUserValue(leaseKey, l)     // so that a handler may pass c itself as the context
	in.SetUserValue(lockKey, x.lock) // for Error
	defer func() {
		if abandoned(c) {
			x.noteTimeout(outer)
			return
		}
		c.SetContext(outer)
		in.SetUserValue(leaseKey, lease)
		in.SetUserValue(lockKey, lock)
	}()
	x.err = c.Next()
}

// noteTimeout logs that a timeout inside has answered. One outside has ended
// outer, and is right.
func (x *exchange) noteTimeout(outer context.Context) {
	if outer.Err() == nil {
		x.lock.NoteTimeout(x.req, x.route, "of Fiber")
	}
}

// Param implements [keyfunc.Params].
func (x *exchange) Param(name string) (value string, present bool) {
	if name == "*" || name == "+" {
		name += "1" // as fiber names the first one
	}
	present = slices.ContainsFunc(x.c.Route().Params, func(known string) bool {
		return known == name || !x.c.App().Config().CaseSensitive && strings.EqualFold(known, name)
	})
	return x.param(name), present
}

// param returns a decoded parameter. param does not decode again if fiber has
// done so.
func (x *exchange) param(name string) string {
	value := x.c.Params(name)
	if !x.c.App().Config().UnescapePath && strings.Contains(value, "%") {
		if v, err := url.PathUnescape(value); err == nil {
			return v
		}
	}
	return value
}

// SetPath records the path parameters for [keyfunc.Path].
func (x *exchange) SetPath() {
	for _, name := range x.c.Route().Params {
		value := strings.Clone(x.param(name))
		keyfunc.SetPath(x.req, name, value)
		if short, first := strings.CutSuffix(name, "1"); first && (short == "*" || short == "+") {
			keyfunc.SetPath(x.req, short, value)
		}
	}
}
