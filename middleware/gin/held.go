package lockmw

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// heldExchange is an exchange whose answer is held back.
type heldExchange struct {
	exchange

	limit int
	held  *heldWriter
	left  bool // the chain has left errors, and nothing else
}

// Next runs the rest of the chain under l.
func (x *heldExchange) Next(l *guard.Lease) {
	c, outer, before := x.c, x.c.Writer, len(x.c.Errors)
	x.held = &heldWriter{
		ResponseWriter: outer, capture: httpguard.NewCapture(outer, x.limit), status: outer.Status(), size: unwritten,
	}
	c.Writer = x.held
	defer func() { c.Writer = outer }()
	x.exchange.Next(l)
	x.left = !x.held.Written() && len(c.Errors) > before
	for _, err := range c.Errors[min(before, len(c.Errors)):] {
		_ = httpguard.Bare(l.Context(), err.Err)
	}
}

// Value returns the value of f.
func (x *heldExchange) Value(f keyfunc.Func) (string, error) {
	x.SetPath()
	return f(x.c.Request)
}

// Begun also knows of a connection that was taken over, or refused.
func (x *heldExchange) Begun() bool {
	if x.held == nil {
		return x.exchange.Begun()
	}
	return x.exchange.Begun() && !x.held.refused || x.held.capture.Passed()
}

func (x *heldExchange) Held() httpguard.Answer {
	a := x.held.capture.Held()
	a.Silent = a.Silent && a.Status == x.held.status
	a.Status = x.held.status
	if x.left {
		a.Status = 0
	}
	a.Unrouted = x.c.FullPath() == "" && !x.held.Written() && !x.left // gin's own 404 or 405 follows
	return a
}

// Whole reports whether Held is all of an answer that has begun.
func (x *heldExchange) Whole() bool { return x.held != nil && x.held.capture.Whole() }

// Send also passes on a status that gin has yet to write.
func (x *heldExchange) Send() {
	x.held.capture.Send()
	x.c.Status(x.held.status)
	if x.held.Written() {
		x.c.Writer.WriteHeaderNow()
	}
}

func (x *heldExchange) Replay(a httpguard.Answer) {
	x.c.Abort()
	a.Write(x.c.Writer)
}

// heldWriter is gin's ResponseWriter on a Capture. The methods that it does not
// have are those of the writer below.
type heldWriter struct {
	gin.ResponseWriter

	capture *httpguard.Capture
	status  int
	size    int // of the body

	informed bool // the last header was informational, so WriteHeaderNow has nothing to write
	refused  bool // a Hijack was, after which gin's own writer below counts as written
}

// unwritten is the size of an answer before its header is written.
const unwritten = -1

func (w *heldWriter) Unwrap() http.ResponseWriter { return w.capture }
func (w *heldWriter) Header() http.Header         { return w.capture.Header() }
func (w *heldWriter) Status() int                 { return w.status }
func (w *heldWriter) Size() int                   { return w.size }
func (w *heldWriter) Written() bool               { return w.size != unwritten }

// WriteHeader sends an informational answer at once, and remembers the status
// of the answer.
func (w *heldWriter) WriteHeader(status int) {
	if status <= 0 || w.Written() {
		return
	}
	w.informed = status < http.StatusOK && status != http.StatusSwitchingProtocols
	if w.informed {
		w.capture.WriteHeader(status)
	} else {
		w.status = status
	}
}

func (w *heldWriter) WriteHeaderNow() {
	if !w.Written() && !w.informed {
		w.size = 0
		w.capture.WriteHeader(w.status)
	}
}

// begin writes the header of the answer, if nobody has done so.
func (w *heldWriter) begin() {
	w.informed = false
	w.WriteHeaderNow()
}

func (w *heldWriter) Write(b []byte) (int, error) {
	w.begin()
	n, err := w.capture.Write(b)
	w.size += n
	return n, err
}

func (w *heldWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *heldWriter) Flush() {
	w.begin()
	w.capture.Flush()
}

func (w *heldWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := w.capture.Hijack()
	if err == nil {
		w.size = max(w.size, 0)
	}
	w.refused = err != nil
	return conn, buf, err
}
