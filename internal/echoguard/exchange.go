package echoguard

import (
	"errors"
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// exchange is a request as [httpguard.Lock] sees it.
type exchange[C Context] struct {
	version Version[C]
	c       C
	keys    httpguard.Source
	next    func(C) error
	err     error // returned by next
}

func (x *exchange[C]) Request() *http.Request { return x.c.Request() }
func (x *exchange[C]) Context() C             { return x.c }
func (x *exchange[C]) Params() keyfunc.Params { return x }
func (x *exchange[C]) Begun() bool            { return begun(x.version, x.c) }
func (x *exchange[C]) Pattern() string        { return x.c.Path() }

func (x *exchange[C]) Keys() (httpguard.Keys, error) {
	keys, err := x.keys.Keys(x)
	if err != nil {
		err = x.malformed(err)
	}
	return keys, err
}

// malformed returns err, but tells a path parameter that is encoded twice from
// a missing one.
func (x *exchange[C]) malformed(err error) error {
	at := (*keyfunc.Error)(nil)
	if !errors.As(err, &at) || at.Source != "path" || !errors.Is(at.Err, keyfunc.ErrMissing) {
		return err
	}
	for i := 0; ; i++ {
		name, value, more := x.version.ParamAt(x.c, i)
		switch {
		case !more:
			return err
		case name == at.Name && value != "":
			return &keyfunc.Error{Source: "path", Name: name, Err: keyfunc.ErrInvalid}
		}
	}
}

func (x *exchange[C]) Failed() bool {
	return x.version.Status(x.c) >= http.StatusBadRequest || !x.Begun() && x.err != nil
}

// begun reports whether the response of c has begun.
func begun[C Context](v Version[C], c C) bool {
	begun, _ := v.Committed(c)
	return *begun
}

// Param implements [keyfunc.Params]. Param decodes the parameter, because echo
// matches a path of unusual spelling as it was sent.
func (x *exchange[C]) Param(name string) (value string, present bool) {
	for i := 0; ; i++ {
		known, value, more := x.version.ParamAt(x.c, i)
		if !more {
			return "", false
		}
		if known == name {
			return httpguard.Decoded(value, x.version.AsSent(x.c)), true
		}
	}
}

// SetPath records the path parameters for [keyfunc.Path].
func (x *exchange[C]) SetPath() {
	for i := 0; ; i++ {
		name, value, more := x.version.ParamAt(x.c, i)
		if !more {
			return
		}
		keyfunc.SetPath(x.c.Request(), name, httpguard.Decoded(value, x.version.AsSent(x.c)))
	}
}

// Next serves the request under l.
func (x *exchange[C]) Next(l *guard.Lease) {
	outer := x.c.Request()
	x.c.SetRequest(outer.WithContext(l.Context()))
	defer func() {
		httpguard.GiveBack(outer, x.c.Request())
		x.c.SetRequest(outer)
	}()
	x.err = x.next(x.c)
}

// heldExchange is an exchange whose answer is held back.
type heldExchange[C Context] struct {
	exchange[C]
	*httpguard.Capture // nil before Next

	limit int
}

// Next serves the request under l.
func (x *heldExchange[C]) Next(l *guard.Lease) {
	outer := x.version.Response(x.c)
	x.Capture = httpguard.NewCapture(outer, x.limit)
	x.version.SetResponse(x.c, x.version.NewResponse(x.c, x.Capture))
	defer x.version.SetResponse(x.c, outer)
	x.exchange.Next(l)
}

// Value returns the value of f.
func (x *heldExchange[C]) Value(f keyfunc.Func) (string, error) {
	x.SetPath()
	v, err := f(x.Request())
	return v, x.malformed(err)
}

// Begun also knows of a connection that was taken over.
func (x *heldExchange[C]) Begun() bool { return x.exchange.Begun() || x.Passed() }

// Replay sends a.
func (x *heldExchange[C]) Replay(a httpguard.Answer) { a.Write(x.version.Response(x.c)) }
