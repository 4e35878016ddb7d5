// Package lockmwtest checks that a middleware guards its routes as the adapters
// of this module do. The table checks the answer to each outcome, the key of
// each request, and that no part of a request is lost. Each adapter runs it
// from its own tests:
//
//	func TestTheTable(t *testing.T) { lockmwtest.Run(t, lockmwtest.Adapter{Mount: mount}) }
//
// An adapter's [Mount] makes a route with its middleware. The example shows a
// whole Mount. Run works in virtual time and on memlocker, so the table takes
// about a second. [RunSockets] uses connections on the loopback.
//
// The names in [Lock] are those of the adapters here, for example of package
// middleware/nethttp. An adapter without one of them, like Answers, cannot pass
// the rows about it.
package lockmwtest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// Handler is the handler of a guarded route. A Handler returns the error to
// answer.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Lock is one middleware on the route. A Lock is Key(g, Template), or Static(g,
// Static), KeyFunc(g, Key), Keys(g, Templates...) or KeysFunc(g, Keys) if that
// field is set. The options that are set are added, but Keys has none.
type Lock struct {
	Template string
	Static   string
	Key      keyfunc.Func
	// several keys
	Templates []string
	Keys      func(*http.Request) ([]string, error)

	OnError func(w http.ResponseWriter, r *http.Request, err error) // WithErrorHandler
	Held    int                                                     // WithHeldStatus, unless 0
	// not a lock but Idempotent(g, Scope, TTL) unless TTL is 0, with its
	// options
	Scope       keyfunc.Func
	TTL         time.Duration
	OptionalKey bool     // WithOptionalKey
	KeptHeaders []string // WithKeptHeaders, unless nil

	IdempotencyKey keyfunc.Func   // WithIdempotencyKey, unless nil
	Fingerprint    []keyfunc.Func // WithFingerprint, unless nil
	NoFingerprint  bool           // WithoutFingerprint
	ReplayHook     func()         // WithReplayHook, unless nil

	Once sqlresult.OnceFunc // InTransactionOf, unless nil
	// not a lock but Answers with the options for answers
	Answers   bool
	SkipSafe  bool // WithSkipper(SafeMethods)
	BodyLimit int  // WithBodyLimit, unless 0
}

// answerOptions returns the options of l for errors, without OnError.
func (l Lock) answerOptions() (opts []httpopt.AnswerOption) {
	if l.Held != 0 {
		opts = append(opts, httpopt.WithHeldStatus(l.Held))
	}
	return opts
}

// options returns the options of a lock, the given ones for errors among them,
// without SkipSafe.
func (l Lock) options(answers []httpopt.AnswerOption) (opts []httpopt.Option) {
	for _, o := range answers {
		opts = append(opts, o)
	}
	if l.BodyLimit > 0 {
		opts = append(opts, httpopt.WithBodyLimit(l.BodyLimit))
	}
	return opts
}

// idempotentOptions returns the options of an Idempotent, the given ones of a
// lock among them, without ReplayHook.
func (l Lock) idempotentOptions(lock []httpopt.Option) (opts []httpopt.IdempotentOption) {
	for _, o := range lock {
		opts = append(opts, o)
	}
	if l.OptionalKey {
		opts = append(opts, httpopt.WithOptionalKey())
	}
	if l.KeptHeaders != nil {
		opts = append(opts, httpopt.WithKeptHeaders(l.KeptHeaders...))
	}
	if l.IdempotencyKey != nil {
		opts = append(opts, httpopt.WithIdempotencyKey(l.IdempotencyKey))
	}
	if l.Fingerprint != nil {
		opts = append(opts, httpopt.WithFingerprint(l.Fingerprint...))
	}
	if l.NoFingerprint {
		opts = append(opts, httpopt.WithoutFingerprint())
	}
	if l.Once != nil {
		opts = append(opts, httpopt.InTransactionOf(l.Once))
	}
	return opts
}

// Mount returns an app of the adapter's framework, without recovery. Its only
// route is /stock/{sku} for any method. A request passes the locks, the first
// outermost, and then h serves it. An error of h goes to the adapter's Abort or
// Error. If they do not answer it, the answer is status 418. Mount panics if
// the adapter's constructors do.
type Mount func(g *guard.Guard, h Handler, locks ...Lock) http.Handler

// The limits of the guard in every case.
const (
	ttl     = 3 * time.Second
	maxWait = time.Second
	maxHold = 20 * time.Second
	waiters = 1
)

// Values for cases that need no special ones. POST path has the key under
// template.
const (
	sku      = "s3cret" // must appear in no answer and no log
	path     = "/stock/" + sku
	template = "stock:{sku}"
)

var key = guard.Key("stock", sku)

// rig holds the parts that one case works with.
type rig struct {
	*testing.T
	Adapter

	locker *memlocker.Locker
	guard  *guard.Guard // the guard of the app
	other  *guard.Guard // the guard of another process
	logs   *logs        // of both
	stray  *logs        // output of slog's default logger
}

func newRig(t *testing.T, a Adapter) *rig {
	t.Helper()
	locker := memlocker.New()
	r := &rig{T: t, Adapter: a, locker: locker, logs: &logs{}, stray: &logs{}}
	r.guard, r.other = r.newGuard(locker), r.newGuard(locker.Peer())
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(r.stray, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return r
}

// app returns an app with a lock for each template. A template may be a
// constant.
func (r *rig) app(g *guard.Guard, h Handler, templates ...string) http.Handler {
	locks := make([]Lock, len(templates))
	for i, template := range templates {
		if strings.Contains(template, "{") {
			locks[i].Template = template
		} else {
			locks[i].Static = template
		}
	}
	return r.Mount(g, h, locks...)
}

func (r *rig) newGuard(l guard.Locker) *guard.Guard {
	r.Helper()
	g, err := guard.New(l, guard.WithTTL(ttl), guard.WithMaxWait(maxWait), guard.WithMaxHold(maxHold),
		guard.WithMaxWaiters(waiters),
		guard.WithName("shop"), guard.WithLogger(slog.New(slog.NewTextHandler(r.logs, nil))))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = g.Close(context.WithoutCancel(r.Context())) })
	return g
}

// hold takes a key until the case ends or release is called.
func (r *rig) hold(g *guard.Guard, key string) (release func()) {
	r.Helper()
	l, err := g.Acquire(r.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	release = func() { _ = l.Release(r.Context()) }
	r.Cleanup(release)
	return release
}

// mustBeFree fails the test unless another process can have the key at once.
func (r *rig) mustBeFree(key string) {
	r.Helper()
	synctest.Wait() // a claim that was given up is released in the background
	l, err := r.other.TryAcquire(r.Context(), key)
	if err != nil {
		r.Fatalf("the key was not released: %v", err)
	}
	_ = l.Release(r.Context())
}

// post sends POST target to app.
func post(ctx context.Context, app http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, target, nil))
	return w
}

// ok is a handler that must run. never is a handler that must not run.
func ok(w http.ResponseWriter, _ *http.Request) error {
	_, err := io.WriteString(w, "done")
	return err
}

func (r *rig) never(http.ResponseWriter, *http.Request) error {
	r.Error("the handler ran")
	return nil
}

// expectDone fails the test unless w is the answer of ok.
func (r *rig) expectDone(w *httptest.ResponseRecorder) {
	r.Helper()
	if w.Code != http.StatusOK || w.Body.String() != "done" {
		r.Errorf("got %d %s, want the handler's answer", w.Code, w.Body)
	}
}

// expectProblem fails the test unless w is the problem with that status and
// code. retry is whether it must have a Retry-After.
func (r *rig) expectProblem(w *httptest.ResponseRecorder, status int, code string, retry bool) {
	r.Helper()
	var body struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		r.Fatalf("got %d %q, want a problem: %v", w.Code, w.Body, err)
	}
	if w.Code != status || body.Status != status || body.Code != code || body.Type == "" ||
		body.Title == "" || body.Detail == "" {
		r.Errorf("got %d %s, want %d %s", w.Code, w.Body, status, code)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		r.Errorf("got Content-Type %q", got)
	}
	after := w.Header().Get("Retry-After")
	if seconds, _ := strconv.Atoi(after); retry != (seconds >= 1) || !retry && after != "" {
		r.Errorf("got Retry-After %q, want one: %v", after, retry)
	}
	if strings.Contains(w.Body.String(), sku) {
		r.Errorf("the body tells the key: %s", w.Body)
	}
}

// expectNothing fails the test if anything was written except a status for the
// access log.
func (r *rig) expectNothing(w *httptest.ResponseRecorder) {
	r.Helper()
	if w.Code != 499 || w.Body.Len() > 0 || w.Header().Get("Content-Type") != "" ||
		w.Header().Get("Retry-After") != "" {
		r.Errorf("got %d %v %q, want nothing", w.Code, w.Header(), w.Body)
	}
}

// logs is the output of a logger. logs is safe for concurrent use.
type logs struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
