package faults

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// Handlers that end in other ways than by returning, on a server of net/http.

// web serves h, and returns a function that sends a request to it.
func web(t *testing.T, h http.Handler) func() (status int, err error) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return func() (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, http.NoBody)
		if err != nil {
			return 0, err
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
}

func TestFault34AHandlerThatPanicsReleasesItsKey(t *testing.T) {
	begin(t)
	s := serve(t)
	rdb := redistest.Client(t, s.Addr)
	g := newGuard(t, rdb, guard.WithTTL(long))
	for name, end := range map[string]func(){
		"panic":           func() { panic("a bug") },
		"ErrAbortHandler": func() { panic(http.ErrAbortHandler) },
		"Goexit":          runtime.Goexit,
	} {
		passed := make(chan any, 1)
		observe := func(next http.Handler) http.Handler { // sees what passes through the lock
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					p := recover()
					passed <- p
					if p != nil {
						panic(p)
					}
				}()
				next.ServeHTTP(w, r)
			})
		}
		ask := web(t, observe(lockmw.Static(g, "all")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if !has(t, rdb, "all") {
				t.Errorf("%s: not held", name)
			}
			end()
		}))))
		if status, err := ask(); err == nil {
			t.Errorf("%s: the client got %d", name, status)
		}
		p := <-passed
		if err, isErr := p.(error); p != any("a bug") &&
			(!isErr || !errors.Is(err, http.ErrAbortHandler)) && name != "Goexit" {
			t.Errorf("%s: %v came through", name, p)
		}
		isFree(t, rdb, "all")
	}
	keeps(t, "released, and what was thrown passes on unchanged")
}

func TestFault35ATimeoutOutsideTheLockKeepsTheKeyToTheHandlersEnd(t *testing.T) {
	begin(t)
	s := serve(t)
	rdb := redistest.Client(t, s.Addr)
	g := newGuard(t, rdb, guard.WithTTL(long))
	warm(t, g)
	const timeout = 3 * time.Second // a busy machine starts the handler in it
	heldAfter := func(wrap func(http.Handler) http.Handler) bool {
		finish, ended := make(chan struct{}), make(chan error, 1)
		ask := web(t, wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-finish // even if its context has ended
			ended <- context.Cause(r.Context())
		})))
		if status, err := ask(); status != http.StatusServiceUnavailable {
			t.Errorf("got %d, %v, want the timeout's answer", status, err)
		}
		held := has(t, rdb, "all")
		close(finish)
		if <-ended == nil {
			t.Error("the handler's context did not end")
		}
		isFree(t, rdb, "all")
		return held
	}
	lock := lockmw.Static(g, "all")
	if !heldAfter(func(h http.Handler) http.Handler { return http.TimeoutHandler(lock(h), timeout, "") }) {
		t.Error("outside: the key was free while the handler ran")
	}
	if heldAfter(func(h http.Handler) http.Handler { return lock(http.TimeoutHandler(h, timeout, "")) }) {
		t.Error("inside: the key was held to the end, so the warning in the documentation is out of date")
	}
	keeps(t, "outside the lock, as documented: the key is held until the handler ends. Inside, nothing can "+
		"be known of the "+
		"handler: the documentation of `lockmw` warns of it")
}
