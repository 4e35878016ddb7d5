package httpguard

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
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

// NoteTimeout logs once for a route that by, a timeout inside the lock, has
// answered. The handler may still run then, without the key.
func (l *Lock) NoteTimeout(r *http.Request, pattern, by string) {
	if _, told := l.told.LoadOrStore(note{"timeout", pattern}, nil); !told {
		l.logger(route(r, pattern)).ErrorContext(r.Context(), "guard: a timeout inside the lock has answered "+
			"while its handler may run on without the key: put it outside", "timeout", by)
	}
}

// Place returns a function for the requests of one middleware. That returns an
// error if the middleware runs in a goroutine of a timeout outside of it. Such a
// timeout goes on with the framework's context while the goroutine still uses
// it, and the framework gives the context to another request.
//
// moved looks at the functions on the stack, the innermost first, and reports
// whether that is so. All requests of a route come by the same way, so only the
// first one of each is looked at. The function is safe for concurrent use.
func Place(moved func(stack []string) bool) (check func(pattern string) error) {
	var mu sync.RWMutex // guards places
	places := map[string]error{}
	return func(pattern string) error {
		mu.RLock()
		err, known := places[pattern]
		mu.RUnlock()
		if known {
			return err
		}
		if moved(stack()) {
			err = errMoved
		}
		mu.Lock()
		defer mu.Unlock()
		places[pattern] = err
		return err
	}
}

var errMoved = fmt.Errorf("%w: a timeout outside the lock runs it in another goroutine, with a context that the "+
	"framework gives to the next request meanwhile: put http.TimeoutHandler around the server's handler, "+
	"or a timeout of the context alone", guard.ErrInvalidOption)

// stack returns the functions on the caller's stack, the innermost first. It
// returns none if there are very many.
func stack() []string {
	var pcs [512]uintptr
	n := runtime.Callers(2, pcs[:])
	if n == len(pcs) {
		return nil
	}
	var functions []string
	for frames := runtime.CallersFrames(pcs[:n]); ; {
		f, more := frames.Next()
		functions = append(functions, f.Function)
		if !more {
			return functions
		}
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
