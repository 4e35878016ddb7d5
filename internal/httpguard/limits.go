package httpguard

import (
	"net/http"
	"runtime"
	"strings"
	"time"
)

// handlerTime is the min time that should be left for the handler and its
// answer after the longest wait.
const handlerTime = time.Second

// lookAtServer logs once for a middleware if its waits may be longer than the
// time that the server gives a request. The client would then get no answer at
// all.
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

// NoteTimeout logs once for a route that what, a timeout inside the lock, has
// answered. The handler may still run then, without the key.
func (l *Lock) NoteTimeout(r *http.Request, pattern, what string) {
	if _, told := l.told.LoadOrStore(note{"timeout", pattern}, nil); !told {
		l.logger(route(r, pattern)).ErrorContext(r.Context(), "guard: "+what+
			" inside the lock answers while its handler may run on without the key: put it outside")
	}
}

// inTimeoutHandler reports whether an http.TimeoutHandler between a lock and
// the caller writes the response. inTimeoutHandler looks at the stack, because
// nothing else shows that. The inner handler runs in another goroutine, whose
// end cannot be seen.
func inTimeoutHandler() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "net/http.(*timeoutHandler).ServeHTTP":
			return true
		case !more, strings.HasSuffix(f.Function, "internal/httpguard.(*Lock).Serve"),
			strings.HasSuffix(f.Function, "internal/httpguard.(*Idempotent).Serve"):
			return false // a TimeoutHandler outside the lock is right
		}
	}
}
