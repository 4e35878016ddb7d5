package lockmw

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/go-lockguard/guard/internal/httpguard"
)

// writer is a ResponseWriter that knows whether the response has begun, and
// with which status. Only the request's own goroutine uses begun and status.
type writer struct {
	http.ResponseWriter

	lock    *httpguard.Lock // of the middleware; nil if the route is not guarded
	request *http.Request   // as the middleware got it, if the route is guarded
	begun   bool
	status  int // as written; 0 if none was written, which means 200 if the response has begun
}

// shaped returns w with the optional methods that the wrapped writer has, for
// handlers that look for them by type. An http.ResponseController finds its
// methods through Unwrap.
func (w *writer) shaped() http.ResponseWriter {
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
	flushWriter  struct{ *writer }
	hijackWriter struct{ *writer }
	bothWriter   struct{ *writer }
)

func (w flushWriter) Flush() { w.flush() }
func (w bothWriter) Flush()  { w.flush() }

func (w hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }
func (w bothWriter) Hijack() (net.Conn, *bufio.ReadWriter, error)   { return w.hijack() }

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the response, unless status is informational.
func (w *writer) WriteHeader(status int) {
	if !w.begun && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.begun, w.status = true, status
		if status == http.StatusServiceUnavailable && w.lock != nil {
			w.lock.NoteTimeout(w.request)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// WriteString is for io.WriteString, which would otherwise copy s.
func (w *writer) WriteString(s string) (int, error) {
	w.begun = true
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom is for io.Copy, so that the server can still send files without
// copying them.
func (w *writer) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, src)
	w.begun = w.begun || n > 0
	return n, err
}

// FlushError is for http.ResponseController, which would otherwise bypass this
// writer.
func (w *writer) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.begun = w.begun || err == nil
	return err
}

// flush and hijack are called only if shaped has found them in the wrapped
// writer.
func (w *writer) flush() {
	w.begun = true
	w.ResponseWriter.(http.Flusher).Flush()
}

func (w *writer) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := w.ResponseWriter.(http.Hijacker).Hijack()
	w.begun = w.begun || err == nil
	return conn, buf, err
}

// find returns the innermost writer of this package in w, or nil if there is
// none.
func find(w http.ResponseWriter) *writer {
	for {
		switch at := w.(type) {
		case interface{ ours() *writer }:
			return at.ours()
		case interface{ Unwrap() http.ResponseWriter }:
			w = at.Unwrap()
		default:
			return nil
		}
	}
}

func (w *writer) ours() *writer { return w }
