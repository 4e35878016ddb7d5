package httpguard

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"strings"
	"time"
)

// Capture is a ResponseWriter that holds an answer back until Send. An answer
// that the handler flushes, or that is longer than the limit, goes to the
// client as it comes. An answer that takes over the connection does so too. If
// there is no limit, nothing goes to the client before Send.
//
// Capture has no Unwrap, so no answer can leave past it.
type Capture struct {
	under  http.ResponseWriter
	limit  int
	header http.Header // as it was when the answer began to go to the client
	status int         // 0 if none was written, which means 200
	body   bytes.Buffer
	outer  http.Header // those below, before an answer began that is flushed
	passed bool        // the answer goes to the client
	parted bool        // body is not all of the answer, or the client has not got all of body
}

// NewCapture returns a Capture that holds back at most limit bytes for w, as
// [Idempotent.Limit] returns them.
func NewCapture(w http.ResponseWriter, limit int) *Capture {
	return &Capture{under: w, limit: limit, header: w.Header().Clone()}
}

// noLimit is the limit of an answer that must not begin before COMMIT.
const noLimit = math.MaxInt

// Limit returns the max number of bytes of an answer that is held back.
func (i *Idempotent) Limit() int {
	if i.once != nil {
		return noLimit
	}
	return i.guard.ResultLimit()
}

// Passed reports whether the client may have a part of the answer, or the
// handler has taken over the connection. A nil Capture has held nothing yet.
func (c *Capture) Passed() bool { return c != nil && c.passed }

// Whole reports whether Held is all of an answer that goes to the client. A
// stream of events is never whole. A nil Capture has held nothing yet.
func (c *Capture) Whole() bool { return c.Passed() && !c.parted }

// Silent reports whether the handler has not begun an answer. Informational
// ones are none.
func (c *Capture) Silent() bool { return !c.passed && c.status == 0 }

// SetReadDeadline is for an [http.ResponseController], as the two below.
func (c *Capture) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.under).SetReadDeadline(t)
}

// SetWriteDeadline is like SetReadDeadline.
func (c *Capture) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.under).SetWriteDeadline(t)
}

// EnableFullDuplex is like SetReadDeadline.
func (c *Capture) EnableFullDuplex() error {
	return http.NewResponseController(c.under).EnableFullDuplex()
}

// Held returns what is held back.
func (c *Capture) Held() Answer {
	a := Answer{Status: c.status, Header: c.header, Outer: c.under.Header(), Body: c.body.Bytes(), Silent: c.Silent()}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	if c.passed {
		a.Outer = c.outer
	}
	return a
}

// Send sends what was held back. What is written after it goes to the client.
func (c *Capture) Send() {
	if c.passed {
		return
	}
	c.passed = true
	c.parted = c.parted || strings.HasPrefix(c.header.Get("Content-Type"), "text/event-stream")
	replace(c.under.Header(), c.header)
	if c.status != 0 {
		c.under.WriteHeader(c.status)
	}
	if c.body.Len() > 0 {
		_, err := c.under.Write(c.body.Bytes()) // an error here means that the client has gone
		c.parted = c.parted || err != nil
	}
}

// Header returns the headers of the answer, which are not those of the
// ResponseWriter below while the answer is held back.
func (c *Capture) Header() http.Header {
	if c.passed {
		return c.under.Header()
	}
	return c.header
}

// WriteHeader begins the answer. Informational answers are sent at once. As in
// net/http, WriteHeader panics for a status that is none: a panic at Send would
// come after the answer was recorded.
func (c *Capture) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %d", status))
	case c.passed:
		c.under.WriteHeader(status)
	case status == http.StatusSwitchingProtocols && c.limit != noLimit:
		c.status, c.parted = status, true
		c.Send()
	case status < 200 && status != http.StatusSwitchingProtocols:
		c.inform(status)
	case c.status == 0: // else the answer has a status already
		c.status = status
	}
}

// inform sends an informational answer with the headers that are set so far.
// inform writes to the server, because the frameworks' own writers take it for
// the answer.
func (c *Capture) inform(status int) {
	server := c.under
	for {
		outer, ok := server.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		server = outer.Unwrap()
	}
	before := server.Header().Clone()
	replace(server.Header(), c.header)
	server.WriteHeader(status)
	replace(server.Header(), before)
}

func (c *Capture) Write(b []byte) (int, error) {
	switch {
	case !c.passed && (c.status == http.StatusNoContent || c.status == http.StatusNotModified):
		return 0, http.ErrBodyNotAllowed
	case len(b) > c.limit-c.body.Len():
		c.parted = true
		c.Send()
	}
	if c.status == 0 {
		c.status = http.StatusOK
	}
	if !c.parted {
		c.body.Write(b)
	}
	if !c.passed {
		return len(b), nil
	}
	n, err := c.under.Write(b)
	c.parted = c.parted || err != nil
	return n, err
}

// Flush is for handlers that look for an http.Flusher.
func (c *Capture) Flush() { _ = c.FlushError() }

// FlushError sends the answer so far, if there is a limit. What is sent, and
// what follows it within the limit, is held too.
func (c *Capture) FlushError() error {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	if c.limit == noLimit {
		return nil
	}
	if !c.passed {
		c.outer = maps.Clone(c.under.Header())
	}
	c.Send()
	err := http.NewResponseController(c.under).Flush()
	c.parted = c.parted || err != nil && !errors.Is(err, http.ErrNotSupported)
	return err
}

// Hijack lets the handler take over the connection, if the server can and there
// is a limit.
func (c *Capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if c.limit == noLimit {
		return nil, nil, fmt.Errorf("%w: an answer in a transaction is held back until COMMIT", http.ErrNotSupported)
	}
	conn, buf, err := http.NewResponseController(c.under).Hijack()
	if err == nil {
		c.passed, c.parted = true, true
	}
	return conn, buf, err
}

// replace makes h the same headers as with.
func replace(h, with http.Header) {
	clear(h)
	maps.Copy(h, with)
}
