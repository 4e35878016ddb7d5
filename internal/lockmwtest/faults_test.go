package lockmwtest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/keyfunc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The names of rows that several faults must fail.
const (
	againRow   = "a request that comes again gets the answer"
	answersRow = "which answers are kept"
	badRow     = "a bad key"
	refusalRow = "a refusal of a lock inside is no answer"
	anyOptRow  = "requests without a key from another place pass with the option"
	chosenRow  = "values that alone tell requests apart"
)

var faults = slices.Concat(runFaults, keptFaults, keyFaults, sameFaults, sentFaults)

var runFaults = []fault{
	{
		name: "runs the handler twice", caughtBy: []string{againRow, answersRow},
		outside: exchanged(func(_ *guard.Guard, r *http.Request, serve server) *httptest.ResponseRecorder {
			if w := serve(r); replayed(w) {
				return w
			}
			return serve(r)
		}),
	},
	{
		name: "keeps nothing", caughtBy: []string{againRow, "errors of the handler's own are answers"},
		outside: forgets(func(*httptest.ResponseRecorder) bool { return true }),
	},
	{
		name: "does not wait for the first", caughtBy: []string{
			"a request that comes meanwhile waits for the answer", "a request that waits longer than MaxWait",
		},
		guard: func(g *guard.Guard) *guard.Guard { return g.With(guard.WithMaxWait(0)) },
	},
	{
		name: "runs while the store is away", caughtBy: []string{"the store is away"},
		outside: answered(func(w *httptest.ResponseRecorder) {
			if w.Code == http.StatusServiceUnavailable {
				w.Code = http.StatusOK
			}
		}),
	},
	{
		name: "runs again after a lost lease", caughtBy: []string{"a lost lease is a 500, and nothing is kept"},
		outside: runsAgain("lock_lost"),
	},
	{
		name: "runs again where it may have been done", caughtBy: []string{
			"at most once: nothing runs again that may have been done",
		},
		outside: runsAgain("idempotency_interrupted"),
	},
	{
		name:     "runs again after an answer that is gone",
		caughtBy: []string{"an answer that was flushed", "one byte over the limit"},
		outside:  runsAgain("idempotency_answer_gone"),
	},
	{
		name: "stops a Goexit", caughtBy: []string{"a Goexit keeps nothing"},
		inside: stopsGoexit,
	},
	{
		name: "logs nothing", caughtBy: []string{
			"the store does not confirm the answer", "a lost lease after the answer was flushed",
			"requests without a scope",
		},
		guard: quietly,
	},
}

var keptFaults = []fault{
	{
		name: "replays another body", caughtBy: []string{againRow, "an answer that is copied from a reader"},
		outside: answered(func(w *httptest.ResponseRecorder) {
			if replayed(w) {
				w.Body.Reset()
			}
		}),
	},
	{
		name: "replays another status", caughtBy: []string{againRow, answersRow},
		outside: answered(func(w *httptest.ResponseRecorder) {
			if replayed(w) {
				w.Code = http.StatusOK
			}
		}),
	},
	{
		name: "forgets how an answer is encoded", caughtBy: []string{"a compressed answer"},
		outside: answered(func(w *httptest.ResponseRecorder) {
			if replayed(w) {
				w.Header().Del("Content-Encoding")
			}
		}),
	},
	{
		name: "keeps no headers of the user's", caughtBy: []string{
			"which headers are kept", "constructors refuse what cannot work",
		},
		lock: func(l *lockmwtest.Lock) { l.KeptHeaders = nil },
	},
	{
		name: "keeps server errors", caughtBy: []string{answersRow},
		outside: keepsToo(func(w *httptest.ResponseRecorder) bool { return w.Code >= 500 }),
	},
	{
		name:     "takes a lock inside for the handler",
		caughtBy: []string{"a middleware inside another one is refused as what it is", refusalRow},
		outside: answered(func(w *httptest.ResponseRecorder) {
			if strings.Contains(w.Body.String(), "lock_held") {
				w.Header().Del("Retry-After")
			}
		}),
	},
	{
		name: "does not see refusals that a handler writes", caughtBy: []string{refusalRow},
		inside: refusals(func(*ctxkey.Refusal) *ctxkey.Refusal { return nil }),
	},
	{
		name: "keeps an answer for too long", caughtBy: []string{"an answer has its TTL"},
		lock: func(l *lockmwtest.Lock) { l.TTL *= 2 },
	},
}

var keyFaults = []fault{
	blind("ignores the body", func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }),
	blind("ignores the query", func(r *http.Request) { r.URL.RawQuery = "" }),
	blind("ignores the path", func(r *http.Request) { r.URL.Path = "/" }),
	blind("ignores the host", func(r *http.Request) { r.Host = "a" }),
	blind("ignores the type of the body", func(r *http.Request) { r.Header.Del("Content-Type") }),
	blind("ignores the method", func(r *http.Request) { r.Method = http.MethodPatch }),
	{
		name: "answers 409 for another request", caughtBy: []string{"a key that was used for another request"},
		outside: answered(func(w *httptest.ResponseRecorder) {
			if w.Code == http.StatusUnprocessableEntity {
				w.Code = http.StatusConflict
			}
		}),
	},
	{
		name: "has one scope", caughtBy: []string{"each scope has its own keys", "requests without a scope"},
		lock: func(l *lockmwtest.Lock) {
			if l.Scope != nil {
				l.Scope = everybody
			}
		},
	},
	{
		name: "needs no key", caughtBy: []string{badRow},
		lock: func(l *lockmwtest.Lock) { l.OptionalKey = l.Once == nil },
	},
	{
		name: "always needs a key", caughtBy: []string{"requests without a key pass with the option", anyOptRow},
		lock: func(l *lockmwtest.Lock) { l.OptionalKey = false },
	},
	{
		name: "cuts long keys", caughtBy: []string{badRow},
		outside: asked(func(r *http.Request) {
			if name := r.Header.Get("Idempotency-Key"); len(name) > 255 {
				r.Header.Set("Idempotency-Key", name[:255])
			}
		}),
	},
	{
		name: "takes quotes for a part of the key", caughtBy: []string{"a good key, however it is written"},
		outside: asked(func(r *http.Request) {
			if name := r.Header.Get("Idempotency-Key"); len(name) > 2 && name[0] == '"' {
				r.Header.Set("Idempotency-Key", "'"+name[1:])
			}
		}),
	},
	{
		name: "guards safe methods", caughtBy: []string{"safe methods pass"},
		outside: asked(func(r *http.Request) {
			if r.Method == http.MethodGet {
				r.Method = http.MethodPost
			}
		}),
	},
	{
		name: "cuts the body", caughtBy: []string{
			"the handler runs under a lease", "a body that is too large, and one that is not",
		},
		inside: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, 4)
				next.ServeHTTP(w, r)
			})
		},
	},
	{
		name: "has no error handler", caughtBy: []string{"errors go to the error handler"},
		lock: func(l *lockmwtest.Lock) { l.OnError = nil },
	},
}

var sameFaults = []fault{
	{
		name: "looks at the header alone", caughtBy: []string{
			"a key from another place", "a bad key from another place", anyOptRow,
			"a key that alone tells requests apart",
		},
		lock: func(l *lockmwtest.Lock) { l.IdempotencyKey = nil },
	},
	{
		name: "takes two keys for none", caughtBy: []string{anyOptRow},
		lock: func(l *lockmwtest.Lock) {
			if l.OptionalKey {
				keyed(func(v string, err error) (string, error) {
					if errors.Is(err, keyfunc.ErrAmbiguous) {
						err = keyfunc.ErrMissing
					}
					return v, err
				})(l)
			}
		},
	},
	{
		name: "compares whole requests", caughtBy: []string{chosenRow},
		lock: func(l *lockmwtest.Lock) {
			if len(l.Fingerprint) > 0 {
				l.Fingerprint = nil
			}
		},
	},
	{
		name: "joins values", caughtBy: []string{chosenRow},
		lock: func(l *lockmwtest.Lock) {
			if f := l.Fingerprint; len(f) == 2 {
				l.Fingerprint = []keyfunc.Func{func(r *http.Request) (string, error) {
					a, bad := f[0](r)
					b, err := f[1](r)
					return a + b, errors.Join(bad, err)
				}}
			}
		},
	},
	{
		name: "has no transaction", caughtBy: []string{"an answer is committed with the work, or neither is"},
		lock: func(l *lockmwtest.Lock) { l.Once = nil },
	},
	{
		name: "tells nobody of replays", caughtBy: []string{"the hook is told of replays"},
		lock: func(l *lockmwtest.Lock) { l.ReplayHook = nil },
	},
}

// keyed changes what the function of the key returns.
func keyed(change func(v string, err error) (string, error)) func(*lockmwtest.Lock) {
	return func(l *lockmwtest.Lock) {
		if key := l.IdempotencyKey; key != nil {
			l.IdempotencyKey = func(r *http.Request) (string, error) { return change(key(r)) }
		}
	}
}

var sentFaults = []fault{
	{
		name: "sends an answer before it is kept", caughtBy: []string{
			"nothing is sent before it is kept", "a panic keeps nothing",
		},
		inside: writers(func(w http.ResponseWriter) http.ResponseWriter { return eager{w} }),
	},
	{
		name:     "does not see what is written past it",
		caughtBy: []string{"an answer that is written past what holds it back"},
		outside:  reachable, inside: digs(func(b below) http.ResponseWriter { return b }),
	},
	{
		name: "takes a deadline for a client that has gone", caughtBy: []string{"a deadline outside"},
		outside: asked(func(r *http.Request) {
			ctx, leave := context.WithCancel(context.WithoutCancel(r.Context()))
			context.AfterFunc(r.Context(), leave)
			*r = *r.WithContext(ctx)
		}),
	},
	{
		name: "takes silence for success", caughtBy: []string{"the client has gone meanwhile"},
		inside: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				w.WriteHeader(http.StatusOK) // nothing, if there was an answer
			})
		},
	},
	{
		name: "holds informational answers back", caughtBy: []string{"informational answers go through"},
		inside: writers(func(w http.ResponseWriter) http.ResponseWriter { return silent{w} }),
	},
	{
		name:     "takes an informational answer for the answer",
		caughtBy: []string{"an informational answer is no answer"},
		inside:   writers(func(w http.ResponseWriter) http.ResponseWriter { return hasty{w} }),
	},
	{
		name: "does not see that a connection is taken over", caughtBy: []string{"a connection that was taken over"},
		outside: reachable, inside: digs(func(b below) http.ResponseWriter { return deep{b} }),
	},
	{
		name: "does not look at the length", caughtBy: []string{"an answer that was cut"},
		inside: writers(func(w http.ResponseWriter) http.ResponseWriter { return endless{w} }),
	},
	{
		name:     "keeps what a middleware outside has set",
		caughtBy: []string{"headers of a middleware outside are not kept"},
		inside:   writers(func(w http.ResponseWriter) http.ResponseWriter { return setting{w} }),
	},
}

var everybody keyfunc.Func = func(*http.Request) (string, error) { return "all", nil }

// inChild is the variable that makes the test run the faulty adapters
// themselves, which fails it.
const inChild = "LOCKMWTEST_FAULTS"

var failedRow = regexp.MustCompile(`(?m)^ *--- FAIL: TestPlantedFaultIsCaught/([^/ ]+)/(\S+) `)

// The table is worth something only if an adapter with a fault fails it. The
// rows fail a *testing.T, so they run in another process.
func TestPlantedFaultIsCaught(t *testing.T) {
	if os.Getenv(inChild) != "" {
		for _, f := range faults {
			t.Run(f.name, func(t *testing.T) { lockmwtest.RunIdempotent(t, lockmwtest.Adapter{Mount: f.mount}) })
		}
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestPlantedFaultIsCaught$")
	child.Env = append(os.Environ(), inChild+"=1")
	out, err := child.CombinedOutput()
	if err == nil || strings.Contains(string(out), "\npanic: ") {
		t.Fatalf("the faulty adapters ended with %v:\n%s", err, out)
	}
	caught := map[string][]string{}
	for _, m := range failedRow.FindAllStringSubmatch(string(out), -1) {
		caught[m[1]] = append(caught[m[1]], m[2])
	}
	spelled := func(name string) string { return strings.ReplaceAll(name, " ", "_") }
	for _, f := range faults {
		got := caught[spelled(f.name)]
		for _, want := range f.caughtBy {
			if !slices.Contains(got, spelled(want)) {
				t.Errorf("an adapter that %s passes %q; caught by %q", f.name, want, got)
			}
		}
	}
	if t.Failed() {
		t.Logf("%.20000s", out)
	}
}

func TestEveryRowOfIdempotentCatchesAFault(t *testing.T) {
	var named []string
	for _, f := range faults {
		named = append(named, f.caughtBy...)
	}
	rows := lockmwtest.IdempotentRows()
	for _, name := range rows {
		if !slices.Contains(named, name) {
			t.Errorf("no fault is planted for %q", name)
		}
	}
	for _, name := range named {
		if !slices.Contains(rows, name) {
			t.Errorf("there is no row %q", name)
		}
	}
}

func TestTheMountOfTheExamplePassesTheTable(t *testing.T) { testTheTable(t) }

// An adapter without a fault, mounted in the same way, passes.
func TestSoundAdapterPasses(t *testing.T) {
	lockmwtest.RunIdempotent(t, lockmwtest.Adapter{Mount: fault{}.mount})
}
