package lockmw

import (
	"crypto/tls"
	"net"
	"net/http"
	"syscall"

	"github.com/gofiber/fiber/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// heldExchange is an exchange whose answer fiber holds back.
type heldExchange struct {
	exchange

	once  *httpguard.Idempotent
	outer http.Header // of the answer, before the chain runs
}

// Keys leaves the body for the fingerprint, if that is of the whole body.
func (x *heldExchange) Keys() (httpguard.Keys, error) {
	if x.once.WholeBody() {
		return x.derive()
	}
	return x.exchange.Keys()
}

// Value returns the value of f.
func (x *heldExchange) Value(f keyfunc.Func) (v string, err error) {
	err = x.sound(func() error {
		x.SetPath()
		v, err = f(x.req)
		return err
	})
	return v, err
}

// Begun reports whether nobody can hold the answer back. It is a stream, or the
// handler takes over the connection, or has closed it, or a timeout has
// answered.
func (x *heldExchange) Begun() bool {
	return abandoned(x.c) || x.c.Response().IsBodyStream() || x.c.RequestCtx().Hijacked() ||
		dropped(x.c.RequestCtx().Conn())
}

// dropped reports whether the handler has closed conn, as c.Drop does. Its
// client gets no answer.
func dropped(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// Next runs the rest of the chain under l, and answers its error. A status that
// is informational is none, as for net/http.
func (x *heldExchange) Next(l *guard.Lease) {
	x.outer = headers(x.c.Response())
	x.exchange.Next(l)
	if abandoned(x.c) {
		return
	}
	if x.c.Response().StatusCode() < http.StatusOK && !x.c.RequestCtx().Hijacked() {
		x.c.Status(http.StatusOK)
	}
	if x.err != nil {
		x.err = x.c.App().ErrorHandler(x.c, httpguard.Bare(l.Context(), x.err))
	}
}

func (x *heldExchange) Held() httpguard.Answer {
	res := x.c.Response()
	a := httpguard.Answer{Status: res.StatusCode(), Header: headers(res), Outer: x.outer, Body: res.Body()}
	a.Silent = a.Status == http.StatusOK && len(a.Body) == 0 // fiber does not tell it from an empty answer
	delete(a.Header, fiber.HeaderContentLength)              // fiber sends the length of the body, whatever was set
	if x.err != nil {                                        // the ErrorHandler has failed
		a.Status = 0
	}
	return a
}

// Whole returns false, because of an answer that has begun nothing is held.
func (*heldExchange) Whole() bool { return false }

// Send does nothing, because fiber sends the answer.
func (*heldExchange) Send() {}

func (x *heldExchange) Replay(a httpguard.Answer) {
	if x.stream != nil && x.stream.text == nil {
		endStream(x.c) // nobody reads it
	}
	x.c.Status(a.Status)
	for name, values := range a.Header {
		x.c.Response().Header.Del(name)
		for _, value := range values {
			x.c.Response().Header.Add(name, value)
		}
	}
	x.c.Response().SetBodyRaw(a.Body)
}
