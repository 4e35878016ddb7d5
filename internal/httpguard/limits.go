package httpguard

import (
	"net/http"
	"runtime"
	"strings"
	"time"
)

// handlerTime is the least that should be left for the handler, and for writing
// the answer, after the longest wait.
const handlerTime = time.Second

// lookAtServer says, once for a middleware, that its waits may outlast the time
// that the server gives a request: then the client gets no answer at all.
func (l *Lock) lookAtServer(x Exchange) {
	if l.timed.Load() {
		return
	}
	r := x.Request()
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if server == nil || !l.timed.CompareAndSwap(false, true) {
		return
	}
	wait := l.guard.MaxWait()
	if limit := server.WriteTimeout; limit > 0 && wait > 0 && limit < wait+handlerTime {
		l.logger(route(r, x.Pattern())).WarnContext(r.Context(),
			"guard: the server's WriteTimeout leaves no time after a wait: such a client gets no answer; raise it, "+
				"or lower MaxWait",
			"write_timeout", limit, "max_wait", wait)
	}
}

// NoteTimeout says, once for a route, that an [http.TimeoutHandler] inside the
// lock has answered: its handler may still run, and will do so without the key.
// It is to be called when a response begins with status 503, by the goroutine
// that writes it.
func (l *Lock) NoteTimeout(r *http.Request) {
	if !inTimeoutHandler() {
		return
	}
	if _, told := l.told.LoadOrStore(note{"timeout", r.Pattern}, nil); !told {
		l.logger(route(r, r.Pattern)).ErrorContext(r.Context(),
			"guard: an http.TimeoutHandler inside the lock answers while its handler may run on without the key: "+
				"put it outside")
	}
}

// inTimeoutHandler reports whether an http.TimeoutHandler between a lock and
// here writes the response. Nothing else gives it away: its handler runs in a
// goroutine of its own, of which nobody learns when it ends.
func inTimeoutHandler() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "net/http.(*timeoutHandler).ServeHTTP":
			return true
		case !more, strings.HasSuffix(f.Function, "internal/httpguard.(*Lock).Serve"):
			return false // what is outside the lock is right
		}
	}
}
