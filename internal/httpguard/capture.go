package httpguard

import (
	"bufio"
	"bytes"
	"maps"
	"net"
	"net/http"
)

// Capture is a ResponseWriter that holds an answer back until Send. An answer
// that the handler flushes, or that is longer than the limit, goes to the
// client as it comes. So does one that takes over the connection.
type Capture struct {
	under  http.ResponseWriter
	limit  int
	header http.Header
	status int // 0 if none was written, which means 200
	body   bytes.Buffer
	passed bool // the answer goes to the client
}

// NewCapture returns a Capture that holds back at most limit bytes for w.
func NewCapture(w http.ResponseWriter, limit int) *Capture {
	return &Capture{under: w, limit: limit, header: w.Header().Clone()}
}

// Limit returns the max number of bytes of an answer that is held back.
func (i *Idempotent) Limit() int { return i.guard.ResultLimit() }

// Unwrap is for the deadlines of an http.ResponseController.
func (c *Capture) Unwrap() http.ResponseWriter { return c.under }

// Held returns what is held back.
func (c *Capture) Held() Answer {
	a := Answer{Status: c.status, Header: c.header, Body: c.body.Bytes()}
	if a.Status == 0 {
		a.Status, a.Silent = http.StatusOK, c.body.Len() == 0
	}
	return a
}

// Send sends what was held back. What is written after it goes to the client.
func (c *Capture) Send() {
	if c.passed {
		return
	}
	c.passed = true
	replace(c.under.Header(), c.header)
	if c.status != 0 {
		c.under.WriteHeader(c.status)
	}
	if c.body.Len() > 0 {
		_, _ = c.under.Write(c.body.Bytes()) // an error here means that the client has gone
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

// WriteHeader begins the answer. Informational answers are sent at once.
func (c *Capture) WriteHeader(status int) {
	switch {
	case c.passed:
		c.under.WriteHeader(status)
	case status == http.StatusSwitchingProtocols:
		c.status = status
		c.Send()
	case status < 200:
		c.inform(status)
	case c.status == 0 && c.body.Len() == 0: // else the answer has a status already
		c.status = status
	}
}

// inform sends an informational answer with the headers that are set so far.
func (c *Capture) inform(status int) {
	below := c.under.Header()
	before := below.Clone()
	replace(below, c.header)
	c.under.WriteHeader(status)
	replace(below, before)
}

func (c *Capture) Write(b []byte) (int, error) {
	switch {
	case !c.passed && (c.status == http.StatusNoContent || c.status == http.StatusNotModified):
		return 0, http.ErrBodyNotAllowed
	case !c.passed && c.body.Len()+len(b) > c.limit:
		c.Send()
	}
	if c.passed {
		return c.under.Write(b)
	}
	return c.body.Write(b)
}

// Flush is for handlers that look for an http.Flusher.
func (c *Capture) Flush() { _ = c.FlushError() }

// FlushError sends the answer so far.
func (c *Capture) FlushError() error {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	c.Send()
	return http.NewResponseController(c.under).Flush()
}

// Hijack lets the handler take over the connection, if the server can.
func (c *Capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(c.under).Hijack()
	c.passed = c.passed || err == nil
	return conn, buf, err
}

// replace makes h the same headers as with.
func replace(h, with http.Header) {
	clear(h)
	maps.Copy(h, with)
}
