package lockmw

import (
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// exchange is a request as [httpguard.Lock] sees it.
type exchange struct {
	httpguard.Writer // of the answer; it has the request

	keys    httpguard.Source
	next    http.Handler
	answers answers // for the handlers inside
}

func (x *exchange) Request() *http.Request        { return x.Req }
func (x *exchange) Keys() (httpguard.Keys, error) { return x.keys.Keys(x) }
func (x *exchange) Context() *http.Request        { return x.Req } // what the options of this package take
func (x *exchange) Params() keyfunc.Params        { return nil }
func (x *exchange) SetPath()                      {} // ServeMux has done so
func (x *exchange) Pattern() string               { return x.Req.Pattern }

// Next serves the request under l.
func (x *exchange) Next(l *guard.Lease) {
	served := x.Req.WithContext(x.answers.Into(l.Context()))
	defer httpguard.GiveBack(x.Req, served)
	x.next.ServeHTTP(x.Shaped(), served)
}

// heldExchange is an exchange whose answer is held back.
type heldExchange struct {
	exchange

	*httpguard.Capture // nil before Next

	limit int
}

// Next serves the request under l. The exchange inside does not know whether
// the answer is held back.
func (x *heldExchange) Next(l *guard.Lease) {
	x.Capture = httpguard.NewCapture(x.Shaped(), x.limit)
	inside := x.exchange
	inside.ResponseWriter = x.Capture
	inside.Next(l)
}

// Value returns the value of f.
func (x *heldExchange) Value(f keyfunc.Func) (string, error) { return f(x.Req) }

// Begun also knows of a connection that was taken over.
func (x *heldExchange) Begun() bool { return x.exchange.Begun() || x.Passed() }

// Replay sends a.
func (x *heldExchange) Replay(a httpguard.Answer) { a.Write(x.Shaped()) }
