package lockmwtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
)

// RunIdempotent runs the table of the adapter's Idempotent, as [Run] does.
func RunIdempotent(t *testing.T, a Adapter) {
	t.Helper()
	for _, c := range idempotentRows {
		if a.Buffered && slices.Contains(unbufferedAnswers, c.name) {
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

// idempotentRows is the table of RunIdempotent.
var idempotentRows = []struct {
	name string
	run  func(*rig)
}{
	{"a request that comes again gets the answer", again},
	{"which headers are kept", whichHeaders},
	{"which answers are kept", whichAnswers},
	{"errors of the handler's own are answers", ownErrorKept},
	{"a refusal of a lock inside is no answer", refusalInside},
	{"a middleware inside another one is refused as what it is", idempotentRefusedInside},
	{"at most once: nothing runs again that may have been done", atMostOnce},
	{"a request that comes meanwhile waits for the answer", meanwhile},
	{"a request that waits longer than MaxWait", meanwhileTooLong},
	{"a key that was used for another request", reused},
	{"a bad key", badKeys},
	{"a good key, however it is written", goodKeys},
	{"requests without a key pass with the option", optionalKey},
	{"a key from another place", anyKey},
	{"a bad key from another place", badAnyKeys},
	{"requests without a key from another place pass with the option", optionalAnyKey},
	{"values that alone tell requests apart", chosenValues},
	{"a key that alone tells requests apart", keyAlone},
	{"the hook is told of replays", replayHook},
	{"safe methods pass", safePasses},
	{"the handler runs under a lease", underALease},
	{"each scope has its own keys", scopes},
	{"requests without a scope", noScope},
	{"constructors refuse what cannot work", refusedAtStart},
	{"a body that is too large, and one that is not", idempotentBodies},
	{"an answer that was flushed", flushed},
	{pastRow, writtenPast},
	{"a deadline outside", deadlineOutside},
	{"one byte over the limit", overTheLimit},
	{"nothing is sent before it is kept", heldBack},
	{"a lost lease is a 500, and nothing is kept", lostIdempotent},
	{"a lost lease after the answer was flushed", lostFlushed},
	{"the store does not confirm the answer", notKept},
	{"the store is away", awayIdempotent},
	{"a panic keeps nothing", panicsKeepNothing},
	{"a Goexit keeps nothing", exitsKeepNothing},
	{hintsRow, hintsGoThrough},
	{"an informational answer is no answer", informational},
	{takenRow, takenOver},
	{cutRow, cut},
	{"headers of a middleware outside are not kept", outerHeaders},
	{"an answer that is copied from a reader", readFrom},
	{"a compressed answer", compressed},
	{"an answer has its TTL", answersEnd},
	{goneRow, goneMeanwhile},
	{"errors go to the error handler", idempotentErrorHandler},
	{"an answer is committed with the work, or neither is", inTransaction},
}

// unbufferedAnswers has the rows about answers that begin before their handler
// returns, and about clients that the handler sees go.
var unbufferedAnswers = []string{
	"an answer that was flushed", "a lost lease after the answer was flushed", hintsRow, goneRow, takenRow, cutRow,
	pastRow,
}

const (
	hintsRow = "informational answers go through"
	goneRow  = "the client has gone meanwhile"
	takenRow = "a connection that was taken over"
	cutRow   = "an answer that was cut"
	pastRow  = "an answer that is written past what holds it back"
)

const keptFor = time.Hour

// once is the Idempotent of nearly all rows.
var once = Lock{Scope: keyfunc.Header("X-User"), TTL: keptFor}

// idempotencyKey is the name of most requests in the store.
var idempotencyKey = guard.Key("idempotent", "ann", "k1")

// counter is a handler that counts its runs.
type counter struct {
	runs int
	h    Handler // after the count
}

func (c *counter) serve(w http.ResponseWriter, r *http.Request) error {
	c.runs++
	return c.h(w, r)
}

// payment returns a request that pays. The request has the key k1 of ann.
func (r *rig) payment() *http.Request {
	req := httptest.NewRequestWithContext(r.Context(), http.MethodPost, path, strings.NewReader("10 EUR"))
	req.Header.Set("X-User", "ann")
	req.Header.Set("Idempotency-Key", "k1")
	req.Header.Set("Content-Type", "text/plain")
	return req
}

// named is a payment with another key.
func (r *rig) named(name string) *http.Request {
	req := r.payment()
	req.Header.Set("Idempotency-Key", name)
	return req
}

// send lets app answer req.
func send(app http.Handler, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	app.ServeHTTP(w, req)
	return w
}

// pay sends a payment to app.
func (r *rig) pay(app http.Handler) *httptest.ResponseRecorder { return send(app, r.payment()) }

// instances returns two processes with the route.
func (r *rig) instances(h Handler, locks ...Lock) (one, two http.Handler) {
	if len(locks) == 0 {
		locks = []Lock{once}
	}
	return r.Mount(r.guard, h, locks...), r.Mount(r.other, h, locks...)
}

func replayed(w *httptest.ResponseRecorder) bool {
	return w.Header().Get("Idempotency-Replayed") == "true"
}

// expectSame fails the test unless w is the replay of first.
func (r *rig) expectSame(first, w *httptest.ResponseRecorder) {
	r.Helper()
	if w.Code != first.Code || w.Body.String() != first.Body.String() || replayed(first) || !replayed(w) {
		r.Errorf("first %d %.80q, replay %v; then %d %.80q, replay %v", first.Code, first.Body, replayed(first),
			w.Code, w.Body, replayed(w))
	}
}

// expectRuns fails the test unless the handler ran that often.
func (r *rig) expectRuns(c *counter, want int) {
	r.Helper()
	if c.runs != want {
		r.Errorf("the handler ran %d times, want %d", c.runs, want)
	}
}

// order is a handler that answers with a number of its own each time.
func order() *counter {
	c := &counter{}
	c.h = func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusCreated)
		_, err := fmt.Fprintf(w, "order %d", c.runs)
		return err
	}
	return c
}

func again(r *rig) {
	c := order()
	one, two := r.instances(c.serve)
	first := r.pay(one)
	if first.Code != http.StatusCreated || first.Body.String() != "order 1" {
		r.Errorf("got %d %s", first.Code, first.Body)
	}
	for range 3 {
		r.expectSame(first, r.pay(two))
		r.expectSame(first, r.pay(one))
	}
	r.expectRuns(c, 1)
	if w := send(two, r.named("k2")); w.Body.String() != "order 2" || replayed(w) {
		r.Errorf("another key got %s", w.Body)
	}
}

func underALease(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		if l, found := guard.LeaseFrom(req.Context()); !found || l.Key() != idempotencyKey {
			r.Error("there is no lease, or on another key")
		}
		body, err := io.ReadAll(req.Body)
		if err != nil || string(body) != "10 EUR" {
			r.Errorf("the handler read %q, %v", body, err)
		}
		return ok(w, req)
	}}
	app, _ := r.instances(c.serve)
	r.expectDone(r.pay(app))
	r.expectRuns(c, 1)
	r.mustBeFree(idempotencyKey)
}

func answersEnd(r *rig) {
	c := order()
	one, two := r.instances(c.serve)
	first := r.pay(one)
	time.Sleep(keptFor - time.Second)
	r.expectSame(first, r.pay(two))
	time.Sleep(2 * time.Second)
	if w := r.pay(two); replayed(w) {
		r.Error("an answer is older than its TTL")
	}
	r.expectRuns(c, 2)
}

func meanwhile(r *rig) {
	c := order()
	work := c.h
	c.h = func(w http.ResponseWriter, req *http.Request) error {
		time.Sleep(maxWait / 2)
		return work(w, req)
	}
	g := r.guard.With(guard.WithMaxWaiters(0))
	apps := []http.Handler{r.Mount(g, c.serve, once), r.Mount(r.other.With(guard.WithMaxWaiters(0)), c.serve, once)}
	got := make(chan *httptest.ResponseRecorder, 10)
	for i := range cap(got) {
		go func() { got <- r.pay(apps[i%2]) }()
	}
	fresh := 0
	for range cap(got) {
		w := <-got
		if w.Code != http.StatusCreated || w.Body.String() != "order 1" {
			r.Errorf("got %d %s", w.Code, w.Body)
		}
		if !replayed(w) {
			fresh++
		}
	}
	if fresh != 1 {
		r.Errorf("%d answers are not marked as replays, want 1", fresh)
	}
	r.expectRuns(c, 1)
}

func meanwhileTooLong(r *rig) {
	r.hold(r.other, idempotencyKey)
	app, _ := r.instances(r.never)
	start := time.Now()
	w := r.pay(app)
	r.expectProblem(w, http.StatusConflict, "lock_held", true)
	if d := time.Since(start); d < maxWait || replayed(w) {
		r.Errorf("after %v, replay %v", d, replayed(w))
	}
}

func reused(r *rig) {
	c := order()
	one, two := r.instances(c.serve)
	first := r.pay(one)
	sends := func(body io.Reader) func(*http.Request) {
		return func(req *http.Request) { req.Body = io.NopCloser(body) }
	}
	for name, change := range map[string]func(req *http.Request){
		"another body":   sends(strings.NewReader("11 EUR")),
		"no body":        func(req *http.Request) { req.Body, req.ContentLength = http.NoBody, 0 },
		"another method": func(req *http.Request) { req.Method = http.MethodPut },
		"another path":   func(req *http.Request) { req.URL.Path = "/stock/8" },
		"another query":  func(req *http.Request) { req.URL.RawQuery = "a=1" },
		"another host":   func(req *http.Request) { req.Host = "b.example" },
		"another type":   func(req *http.Request) { req.Header.Set("Content-Type", "text/csv") },
		"no type":        func(req *http.Request) { req.Header.Del("Content-Type") },
	} {
		req := r.payment()
		change(req)
		w := send(two, req)
		r.expectProblem(w, http.StatusUnprocessableEntity, "idempotency_key_reused", false)
		if r.Failed() {
			r.Fatal(name)
		}
	}
	again := r.payment()
	again.Host = "EXAMPLE.com"
	again.Header.Set("Content-Type", "TEXT/plain;charset=utf-8")
	r.expectSame(first, send(two, again))
	r.expectRuns(c, 1)
}

func scopes(r *rig) {
	c := order()
	one, two := r.instances(c.serve)
	first := r.pay(one)
	bob := r.payment()
	bob.Header.Set("X-User", "bob")
	if w := send(two, bob); w.Body.String() != "order 2" || replayed(w) {
		r.Errorf("bob got %s", w.Body)
	}
	r.expectSame(first, r.pay(two))
	r.expectRuns(c, 2)

	// Scope and key are told apart, however they are spelled.
	split := r.named("k")
	split.Header.Set("X-User", "ann:k1")
	if a, b := send(one, split).Body.String(), send(one, r.named("k1:k")).Body.String(); a == b {
		r.Errorf("two scopes share %s", a)
	}
}

func readFrom(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.Copy(w, struct{ io.Reader }{strings.NewReader("copied")}) // which cannot write itself
		return err
	}}
	one, two := r.instances(c.serve)
	first := r.pay(one)
	if first.Body.String() != "copied" {
		r.Errorf("got %s", first.Body)
	}
	r.expectSame(first, r.pay(two))
	r.expectRuns(c, 1)
}

func awayIdempotent(r *rig) {
	mend := r.locker.Break()
	app, _ := r.instances(r.never)
	r.expectProblem(r.pay(app), http.StatusServiceUnavailable, "lock_unavailable", true)
	mend()
}

func idempotentErrorHandler(r *rig) {
	c := order()
	lock := once
	lock.OnError = teapot
	one, two := r.instances(c.serve, lock)
	bad := r.payment()
	bad.Header.Del("Idempotency-Key")
	if w := send(one, bad); w.Code != http.StatusTeapot {
		r.Errorf("a bad key got %d", w.Code)
	}
	r.pay(one)
	again := r.payment()
	again.URL.RawQuery = "a=1"
	if w := send(two, again); w.Code != http.StatusTeapot {
		r.Errorf("a key that was used before got %d", w.Code)
	}

	// It also holds for locks inside, and its answers to them are not kept.
	release := r.hold(r.other, key)
	inside := r.Mount(r.guard.With(guard.WithMaxWait(0)), c.serve, lock, Lock{Template: template})
	if w := send(inside, r.named("k2")); w.Code != http.StatusTeapot {
		r.Errorf("a lock inside got %d", w.Code)
	}
	release()
	if w := send(inside, r.named("k2")); w.Code != http.StatusCreated || replayed(w) {
		r.Errorf("then it got %d, replay %v", w.Code, replayed(w))
	}
}

// peek returns the record of the payment that another process finds now.
func (r *rig) peek(ctx context.Context) (found bool) {
	result, err := r.other.With(guard.WithMaxWait(0)).OnceBytes(ctx, idempotencyKey,
		guard.OnceOptions{TTL: keptFor}, func(context.Context) ([]byte, error) { return nil, nil })
	return errors.Is(err, guard.ErrOtherPayload) || err == nil && !result.Fresh // the fingerprint differs
}
