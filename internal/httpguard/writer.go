package httpguard

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Writer is a ResponseWriter that knows whether the response has begun, and
// with which status. Only the request's own goroutine uses it.
type Writer struct {
	http.ResponseWriter

	Lock   *Lock         // of the middleware; nil if the route is not guarded
	Req    *http.Request // as the middleware got it, if the route is guarded
	begun  bool
	status int // as written; 0 if none was written, which means 200 if the response has begun
}

// Begun reports whether the response has begun.
func (w *Writer) Begun() bool { return w.begun }

// Failed reports whether the status is 400 or more.
func (w *Writer) Failed() bool { return w.status >= http.StatusBadRequest }

// Shaped returns w with the optional methods that the wrapped writer has, for
// handlers that look for them by type. An http.ResponseController finds its
// methods through Unwrap.
func (w *Writer) Shaped() http.ResponseWriter {
	_, flusher := w.ResponseWriter.(http.Flusher)
	_, hijacker := w.ResponseWriter.(http.Hijacker)
	switch {
	case flusher && hijacker:
		return bothWriter{w}
	case flusher:
		return flushWriter{w}
	case hijacker:
		return hijackWriter{w}
	}
	return w
}

type (
	flushWriter  struct{ *Writer }
	hijackWriter struct{ *Writer }
	bothWriter   struct{ *Writer }
)

func (w flushWriter) Flush() { w.flush() }
func (w bothWriter) Flush()  { w.flush() }

func (w hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }
func (w bothWriter) Hijack() (net.Conn, *bufio.ReadWriter, error)   { return w.hijack() }

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the response, unless status is informational.
func (w *Writer) WriteHeader(status int) {
	if !w.begun && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.begun, w.status = true, status
		if status == http.StatusServiceUnavailable && w.Lock != nil && inTimeoutHandler() {
			w.Lock.NoteTimeout(w.Req, w.Req.Pattern, "http.TimeoutHandler")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *Writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// WriteString is for io.WriteString, which would otherwise copy s.
func (w *Writer) WriteString(s string) (int, error) {
	w.begun = true
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom is for io.Copy, so that the server can still send files without
// copying them.
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, src)
	w.begun = w.begun || n > 0
	return n, err
}

// FlushError is for http.ResponseController, which would otherwise bypass this
// writer.
func (w *Writer) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.begun = w.begun || err == nil
	return err
}

// flush and hijack are called only if Shaped has found them in the wrapped
// writer.
func (w *Writer) flush() {
	w.begun = true
	w.ResponseWriter.(http.Flusher).Flush()
}

func (w *Writer) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := w.ResponseWriter.(http.Hijacker).Hijack()
	w.begun = w.begun || err == nil
	return conn, buf, err
}

// FindWriter returns the innermost Writer in w, or nil if there is none.
func FindWriter(w http.ResponseWriter) *Writer {
	for {
		switch at := w.(type) {
		case interface{ ours() *Writer }:
			return at.ours()
		case interface{ Unwrap() http.ResponseWriter }:
			w = at.Unwrap()
		default:
			return nil
		}
	}
}

func (w *Writer) ours() *Writer { return w }
