package lockmwtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// Adapter describes the adapter under test.
type Adapter struct {
	Mount Mount

	// Timeout means that the framework answers a wait that ends with the
	// request's own deadline, with a plain 503.
	Timeout bool

	// Buffered means that the framework reads a whole request before the
	// middleware sees it, and sends the answer when all handlers have returned.
	// The rows about bodies that do not arrive are left out then. The answer
	// for a lost lease, or for the handler's own error, replaces the text that
	// the handler has written.
	Buffered bool

	// Raw means that the router matches paths of unusual spelling as they were
	// sent, and does not decode parameters.
	Raw bool
}

// Run runs the table, each row as a subtest in a testing/synctest bubble. Run
// changes slog's default logger and the default guard. Run must therefore not
// run in parallel with other tests.
func Run(t *testing.T, a Adapter) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*rig)
	}{
		{"a free key lets the handler run under a lease", free},
		{"one request at a time works on a key, others go on", exclusive},
		{"held until MaxWait", held},
		{"queue full", queueFull},
		{"Retry-After is at least what is left of MinHold", minHold},
		{"MinHold on success frees the key of a request that failed", minHoldOnSuccess},
		{"locker unavailable", unavailable},
		{"guard closed", closed},
		{"lost before the first byte", lostBefore},
		{"lost before the first byte, and the handler fails of it", lostAndFailed},
		{"lost after the first byte", lostAfter},
		{"lost before an answer that stands", lostBeforeAnAnswer},
		{"held longer than MaxHold", tooLong},
		{"given up by Close", givenUp},
		{"lost while a middleware inside waits", lostOutside},
		{"a template without a placeholder is refused", noPlaceholder},
		{"a constant key, for those who mean it", static},
		{"a key without its value", noValue},
		{"no such parameter", noSource},
		{"one thing has one key, however it is spelled", spellings},
		{"paths of unusual spelling", unusualPaths},
		{"many values and long ones", extremes},
		{"keys from cookies and bodies, which are left for the handler", bodies},
		{"a bad request says what is wrong", badRequests},
		{"a key function without a key", noKey},
		{"a key function's own error", ownKeyError},
		{"several keys of one request", severalKeys},
		{"one of several keys is held", severalHeld},
		{"several keys that are missing, malformed or too many", severalRefused},
		{"bad templates of several keys are refused", badLists},
		{"a body too large to derive the key", bodyTooLarge},
		{"a body limit of the middleware's own", bodyLimit},
		{"a body over the application's limit", bodyOverLimit},
		{"a body that breaks off", bodyBroken},
		{"client gone while waiting", clientGone},
		{"client gone before its turn", clientGoneBefore},
		{"client gone while a lock inside the handler waits", clientGoneInside},
		{"a handler ends its own wait inside", handlerEndsItsWait},
		{"outer deadline while waiting", outerDeadline},
		{"a panic passes through after release", panics},
		{"Goexit passes through after release", exits},
		{"an error of a lock inside the handler", serviceError},
		{"nobody is asked to repeat what a handler has begun", begun},
		{"an error of the handler's own", ownError},
		{"after the first byte nothing can be answered", afterTheFirstByte},
		{"skipped requests run without a lock", skipped},
		{"the error handler gets every error", errorHandler},
		{"the error handler serves what is inside", errorHandlerInside},
		{"the error handler leaves what is outside", errorHandlerOutside},
		{"answers given once hold for all routes inside", answers},
		{"a held key has the status that the application chooses", heldStatus},
		{"a server that gives less time than a wait may take is named once", shortServer},
		{"readers go together, and a writer alone", readers},
		{"so many requests at once as there are permits", permits},
		{"nested middleware and service share one lease", nested},
		{"a middleware inside another one is refused as what it is", refusedInside},
		{"the default guard", defaultGuard},
	} {
		if a.Buffered && slices.Contains(unbuffered, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, a)
				c.run(r)
				if stray := r.stray.String(); stray != "" {
					t.Errorf("logged past the guard's logger:\n%s", stray)
				}
			})
		})
	}
}

// unbuffered has the rows about bodies that do not arrive, and about an
// http.Server.
var unbuffered = []string{
	"a body over the application's limit", "a body that breaks off",
	"a server that gives less time than a wait may take is named once",
}

func free(r *rig) {
	app := r.app(r.guard, func(w http.ResponseWriter, req *http.Request) error {
		if l, found := guard.LeaseFrom(req.Context()); !found || l.Key() != key {
			r.Errorf("no lease on %s in the request's context", key)
		}
		if _, err := r.other.TryAcquire(req.Context(), key); !errors.Is(err, guard.ErrNotAcquired) {
			r.Errorf("another process got the key: %v", err)
		}
		return ok(w, req)
	}, template)
	r.expectDone(post(r.Context(), app, path))
	r.mustBeFree(key)
}

func exclusive(r *rig) {
	var inside, most, ran atomic.Int32
	app := r.app(r.guard.With(guard.WithMaxWaiters(0), guard.WithMaxWait(time.Minute)),
		func(w http.ResponseWriter, req *http.Request) error {
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			inside.Add(-1)
			ran.Add(1)
			return ok(w, req)
		}, template)
	start := time.Now()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { r.expectDone(post(r.Context(), app, path)) })
	}
	wg.Wait()
	if most.Load() != 1 || ran.Load() != 5 {
		r.Errorf("%d ran, %d at once; want 5, 1", ran.Load(), most.Load())
	}
	if d := time.Since(start); d < 5*time.Second {
		r.Errorf("five turns of 1 s took %v", d)
	}

	start = time.Now()
	for i := range 5 {
		wg.Go(func() { r.expectDone(post(r.Context(), app, fmt.Sprintf("/stock/%d", i))) })
	}
	wg.Wait()
	if d := time.Since(start); d >= 2*time.Second { // a release may join a renewal under way
		r.Errorf("five keys took %v, want 1 s", d)
	}
}

func held(r *rig) {
	r.hold(r.other, key)
	start := time.Now()
	w := post(r.Context(), r.app(r.guard, r.never, template), path)
	r.expectProblem(w, http.StatusConflict, "lock_held", true)
	if d := time.Since(start); d < maxWait || d > maxWait+50*time.Millisecond {
		r.Errorf("waited %v, want %v", d, maxWait)
	}
}

func queueFull(r *rig) {
	release := r.hold(r.guard, key)
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() { r.expectDone(post(r.Context(), r.app(r.guard, ok, template), path)) })
	}
	synctest.Wait()
	w := post(r.Context(), r.app(r.guard, r.never, template), path)
	r.expectProblem(w, http.StatusTooManyRequests, "lock_queue_full", true)
	release()
	wg.Wait()
}

func unavailable(r *rig) {
	mend := r.locker.Break()
	w := post(r.Context(), r.app(r.guard, r.never, template), path)
	r.expectProblem(w, http.StatusServiceUnavailable, "lock_unavailable", true)
	mend()
}

func closed(r *rig) {
	if err := r.guard.Close(r.Context()); err != nil {
		r.Fatal(err)
	}
	w := post(r.Context(), r.app(r.guard, r.never, template), path)
	r.expectProblem(w, http.StatusServiceUnavailable, "lock_unavailable", true)
}

func serviceError(r *rig) {
	order := guard.Key("order", sku)
	r.hold(r.other, order)
	app := r.app(r.guard, func(_ http.ResponseWriter, req *http.Request) error {
		err := r.guard.Do(req.Context(), order, func(context.Context) error { return nil })
		return fmt.Errorf("buy %s: %w", sku, err)
	}, template)
	w := post(r.Context(), app, path)
	r.expectProblem(w, http.StatusConflict, "lock_held", false) // the handler may have done something before
	if !strings.Contains(w.Body.String(), "may have been carried out") {
		r.Errorf("the answer says that nothing was done: %s", w.Body)
	}
	r.mustBeFree(key)
}

// The handler pays and then wants a key. A client that heeds Retry-After must
// pay once, whatever is around the handler.
func begun(r *rig) {
	refusals := map[error]int{
		&guard.HeldError{Remaining: time.Minute}:                       http.StatusConflict,
		guard.ErrQueueFull:                                             http.StatusTooManyRequests,
		guard.ErrUnavailable:                                           http.StatusServiceUnavailable,
		errors.Join(guard.ErrNotAcquired, context.DeadlineExceeded):    http.StatusServiceUnavailable,
		fmt.Errorf("book: %w", &guard.HeldError{Remaining: time.Hour}): http.StatusConflict,
	}
	for name, locks := range map[string][]Lock{
		"no lock":      nil,
		"answers":      {{Answers: true, Held: http.StatusServiceUnavailable}},
		"a lock":       {{Template: template}},
		"another lock": {{Answers: true, Held: http.StatusTooManyRequests}, {Static: "a"}},
	} {
		for refusal, status := range refusals {
			app := r.Mount(r.guard, func(http.ResponseWriter, *http.Request) error { return refusal }, locks...)
			w := post(r.Context(), app, path)
			if w.Code != status || w.Header().Get("Retry-After") != "" {
				r.Errorf("%s, %v: got %d, Retry-After %q; want %d without", name, refusal, w.Code,
					w.Header().Get("Retry-After"), status)
			}
			if r.plainTimeout(w, refusal) {
				continue
			}
			if text := w.Body.String(); !strings.Contains(text, "may have been carried out") ||
				strings.Contains(text, "gain later") {
				r.Errorf("%s, %v: the answer says that nothing was done: %s", name, refusal, text)
			}
		}
	}
	locked := []Lock{{Answers: true, Held: http.StatusLocked}}
	for _, locks := range [][]Lock{locked, append(locked, Lock{Static: "a"})} {
		app := r.Mount(r.guard, func(http.ResponseWriter, *http.Request) error { return &guard.HeldError{} }, locks...)
		if w := post(r.Context(), app, path); w.Code != http.StatusLocked { // which clients do not repeat
			r.Errorf("got %d, want 423", w.Code)
		}
	}
}

// plainTimeout reports whether the framework has answered err itself, as it may
// do after a deadline.
func (r *rig) plainTimeout(w *httptest.ResponseRecorder, err error) bool {
	return r.Timeout && errors.Is(err, context.DeadlineExceeded) && !strings.Contains(w.Body.String(), "lock_")
}

func ownError(r *rig) {
	for _, own := range []error{
		errors.New("own"), context.DeadlineExceeded,
		fmt.Errorf("query: %w", context.Canceled),
	} {
		app := r.app(r.guard, func(http.ResponseWriter, *http.Request) error { return own }, template)
		if w := post(r.Context(), app, path); w.Code != http.StatusTeapot {
			r.Errorf("%v: got %d %s, want the app's own answer", own, w.Code, w.Body)
		}
	}
}

func nested(r *rig) {
	app := r.app(r.guard.With(guard.WithMaxWait(0)), func(w http.ResponseWriter, req *http.Request) error {
		return r.guard.Do(req.Context(), key, func(context.Context) error { return ok(w, req) })
	}, template, template, "stock:{header.X-Sku}")
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(r.Context(), http.MethodPost, path, nil)
	req.Header.Set("X-Sku", sku)
	app.ServeHTTP(w, req)
	r.expectDone(w)
	r.mustBeFree(key)
}

func refusedInside(r *rig) {
	lock := Lock{Template: template}
	r.allRefused(map[string][]Lock{
		"a lock in a lock":           {{Static: "a"}, lock},
		"several keys in a lock":     {{Static: "a"}, {Templates: []string{template, "b:{sku}"}}},
		"with a status of its own":   {{Static: "a"}, {Template: template, Held: http.StatusServiceUnavailable}},
		"with a status from outside": {{Answers: true, Held: http.StatusTooManyRequests}, {Static: "a"}, lock},
	})
	mend := r.locker.Break()
	inside := r.Mount(r.guard.With(guard.WithMaxWait(0)), r.never, Lock{Static: "a"}, lock)
	r.expectProblem(r.pay(inside), http.StatusServiceUnavailable, "lock_unavailable", true)
	mend()
}

// allRefused fails the test unless the innermost middleware of each chain is
// refused as what it is. The handler has not run, whatever is around it.
func (r *rig) allRefused(chains map[string][]Lock) {
	r.Helper()
	release := r.hold(r.other, key)
	defer release()
	g := r.guard.With(guard.WithMaxWait(0))
	for name, locks := range chains {
		w := r.pay(r.Mount(g, r.never, locks...))
		status := http.StatusConflict
		for _, l := range locks {
			status = max(status, l.Held)
		}
		r.expectProblem(w, status, "lock_held", true)
		if strings.Contains(w.Body.String(), "may have been carried out") {
			r.Errorf("%s: the answer says that something was done: %s", name, w.Body)
		}
	}
}

func defaultGuard(r *rig) {
	var none *guard.Guard
	w := post(r.Context(), r.app(none, r.never, template), path)
	r.expectProblem(w, http.StatusInternalServerError, "lock_misconfigured", false)
	if logs := r.stray.String(); strings.Count(logs, "level=ERROR") != 1 {
		r.Errorf("want one error, got:\n%s", logs)
	}
	r.stray.text.Reset()

	app := r.app(none, ok, template) // made before SetDefault; the guard is looked up after it
	guard.SetDefault(r.guard)
	r.Cleanup(func() { guard.SetDefault(nil) })
	r.expectDone(post(r.Context(), app, path))
	r.hold(r.other, key)
	r.expectProblem(post(r.Context(), r.app(none, r.never, template), path), http.StatusConflict, "lock_held", true)
}
