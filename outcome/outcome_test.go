package outcome_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/outcome"
)

func cancelledBy(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func TestEveryErrorHasItsOneOutcome(t *testing.T) {
	alive := t.Context()
	gone := cancelledBy(nil)
	join := errors.Join
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		status int
		code   outcome.Code
		retry  bool
	}{
		{"held", alive, &guard.HeldError{Key: "k"}, 409, "lock_held", true},
		{"held, plain", alive, guard.ErrNotAcquired, 409, "lock_held", true},
		{"held, wrapped by a service", alive, fmt.Errorf("buy: %w", &guard.HeldError{}), 409, "lock_held", true},
		{"queue full", alive, guard.ErrQueueFull, 429, "lock_queue_full", true},
		{"queue full, wrapped", alive, fmt.Errorf("buy: %w", guard.ErrQueueFull), 429, "lock_queue_full", true},
		{"unavailable", alive, fmt.Errorf("%w: dial tcp", guard.ErrUnavailable), 503, "lock_unavailable", true},
		{
			"unavailable, by the limit of a try", alive, join(guard.ErrUnavailable, context.DeadlineExceeded), 503,
			"lock_unavailable", true,
		},
		{
			"unavailable until the wait ended", alive, join(guard.ErrNotAcquired, guard.ErrUnavailable), 503,
			"lock_unavailable", true,
		},
		{"closed", alive, guard.ErrClosed, 503, "lock_unavailable", true},
		{
			"outer deadline", alive, join(guard.ErrNotAcquired, context.DeadlineExceeded), 503,
			"lock_wait_aborted", false,
		},
		{"client gone", gone, join(guard.ErrNotAcquired, context.Canceled), 499, "", false},
		{"client gone while the locker was silent", gone, join(guard.ErrUnavailable, context.Canceled), 499, "", false},
		{
			"a wait cancelled by the service itself", alive, join(guard.ErrNotAcquired, context.Canceled), 503,
			"lock_wait_aborted", false,
		},
		{
			"a wait cancelled by a middleware", cancelledBy(errors.New("drain")),
			join(guard.ErrNotAcquired, context.Canceled), 503, "lock_wait_aborted", false,
		},
		{
			"a wait inside a lease that was lost", cancelledBy(guard.ErrMaxHold),
			join(guard.ErrNotAcquired, context.Canceled), 500, "lock_lost", false,
		},
		{
			"a wait inside a lease that was given up", cancelledBy(guard.ErrClosed),
			join(guard.ErrNotAcquired, context.Canceled), 500, "lock_lost", false,
		},
		{"lost", alive, join(guard.ErrLeaseLost, errors.New("own")), 500, "lock_lost", false},
		{"lost, then held", alive, join(&guard.HeldError{}, guard.ErrLeaseLost), 500, "lock_lost", false},
		{"lost, the client gone too", gone, join(guard.ErrLeaseLost, context.Canceled), 500, "lock_lost", false},
		{"max hold", alive, guard.ErrMaxHold, 500, "lock_lost", false},
		{
			"missing", alive, &keyfunc.Error{Source: "path", Name: "sku", Err: keyfunc.ErrMissing}, 400,
			"lock_key_invalid", false,
		},
		{"ambiguous", alive, keyfunc.ErrAmbiguous, 400, "lock_key_invalid", false},
		{"invalid", alive, keyfunc.ErrInvalid, 400, "lock_key_invalid", false},
		{"an empty key, which the handler calls the client's", alive, join(guard.ErrInvalidKey,
			&keyfunc.Error{Source: "json", Name: "sku", Err: keyfunc.ErrMissing}), 400, "lock_key_invalid", false},
		{
			"wrong content type", alive, &keyfunc.Error{Source: "json", Name: "sku", Err: keyfunc.ErrMediaType}, 415,
			"lock_unsupported_media_type", false,
		},
		{
			"body too large", alive, fmt.Errorf("%w: %w", keyfunc.ErrTooLarge, &http.MaxBytesError{Limit: 1}), 413,
			"lock_body_too_large", false,
		},
		{"too many keys", alive, fmt.Errorf("cart: %w", keyfunc.ErrTooManyKeys), 413, "lock_too_many_keys", false},
		{
			"no source", alive, &keyfunc.Error{Source: "path", Name: "sku", Err: keyfunc.ErrNoSource}, 500,
			"lock_misconfigured", false,
		},
		{"no default", alive, guard.ErrNoDefault, 500, "lock_misconfigured", false},
		{"invalid key", alive, guard.ErrInvalidKey, 500, "lock_misconfigured", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, ours := outcome.Of(c.ctx, c.err)
			if !ours || o.Status != c.status || o.Code != c.code || (o.RetryAfter > 0) != c.retry {
				t.Fatalf("got %+v, %v; want %d %q, retry %v", o, ours, c.status, c.code, c.retry)
			}
		})
	}
}

// A refusal after some work was done keeps its status and code. Nobody is asked
// to repeat the request.
func TestARefusalAfterSomeWorkAsksNobodyToRepeatIt(t *testing.T) {
	g := newGuard(t)
	for want, refusal := range map[string]error{
		"409 lock_held":         &guard.HeldError{Remaining: time.Second},
		"429 lock_queue_full":   guard.ErrQueueFull,
		"503 lock_unavailable":  guard.ErrUnavailable,
		"503 lock_wait_aborted": errors.Join(guard.ErrNotAcquired, context.DeadlineExceeded),
	} {
		var inside outcome.Outcome
		err := g.Do(t.Context(), "payment", func(ctx context.Context) error {
			inside, _ = outcome.Of(ctx, refusal)
			return fmt.Errorf("book: %w", refusal)
		})
		after, _ := outcome.Of(t.Context(), err)
		for _, o := range []outcome.Outcome{inside, after} {
			if got := fmt.Sprint(o.Status, " ", o.Code); got != want || o.RetryAfter != 0 ||
				!strings.HasSuffix(o.Detail, " Part of the request may have been carried out; check "+
					"before trying again.") {
				t.Errorf("got %+v, want %s without Retry-After", o, want)
			}
		}
	}
}

// The handler that has ended a context of its own has a client that waits.
func TestWhoEndsAContextInsideTheLeaseIsNoClientThatLeft(t *testing.T) {
	wait := errors.Join(guard.ErrNotAcquired, context.Canceled)
	for name, row := range map[string]struct {
		leave  bool // the client leaves too
		status int
	}{"the handler": {false, 503}, "the client": {true, 499}} {
		ctx, leave := context.WithCancel(t.Context())
		err := newGuard(t).Do(ctx, "payment", func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			if row.leave {
				leave()
			}
			cancel()
			o, ours := outcome.Of(ctx, wait)
			if !ours || o.Status != row.status || o.RetryAfter != 0 {
				t.Errorf("%s has ended it: got %+v, %v, want %d", name, o, ours, row.status)
			}
			return nil
		})
		if leave(); err != nil {
			t.Error(err)
		}
	}
}

func newGuard(t *testing.T) *guard.Guard {
	t.Helper()
	return testguard.New(t, memlocker.New())
}

func TestOnlyErrorsOfGuardAndKeyfuncAreOurs(t *testing.T) {
	for _, ctx := range []context.Context{t.Context(), cancelledBy(nil), cancelledBy(guard.ErrLeaseLost)} {
		for _, err := range []error{
			nil, errors.New("own"), context.Canceled, context.DeadlineExceeded,
			fmt.Errorf("query: %w", context.DeadlineExceeded), http.ErrHandlerTimeout, guard.ErrNoLease,
		} {
			if o, ours := outcome.Of(ctx, err); ours || o != (outcome.Outcome{}) {
				t.Errorf("%v: got %+v, want none", err, o)
			}
		}
	}
}

// estimated is an error with an estimate, like HeldError and the queue's error.
type estimated time.Duration

func (estimated) Error() string               { return "estimated" }
func (estimated) Unwrap() error               { return guard.ErrQueueFull }
func (e estimated) RetryAfter() time.Duration { return time.Duration(e) }

func TestRetryAfterIsTheEstimateRoundedUpPlusJitter(t *testing.T) {
	for estimate, least := range map[time.Duration]int{
		-time.Second: 1, 0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, 9500 * time.Millisecond: 10,
	} {
		seen := map[int]bool{}
		for range 200 { // all three within 200 draws, but for one in 10^34
			o, _ := outcome.Of(t.Context(), fmt.Errorf("buy: %w", estimated(estimate)))
			seen[o.RetryAfter] = true
		}
		if len(seen) != 3 || !seen[least] || !seen[least+1] || !seen[least+2] {
			t.Errorf("%v: got %v, want %d to %d", estimate, seen, least, least+2)
		}
	}
}

func TestABadRequestSaysWhichValueAndWhatIsWrongWithIt(t *testing.T) {
	for want, err := range map[string]error{
		`The header "X-Tenant", which names the resource to lock, is missing or empty.`: &keyfunc.Error{Source: "header", Name: "X-Tenant", Err: keyfunc.ErrMissing},
		`The query parameter "sku", which names the resource to lock, is given more than once.`: fmt.Errorf("s3cret: %w",
			&keyfunc.Error{Source: "query", Name: "sku", Err: keyfunc.ErrAmbiguous}),
		`The JSON member "sku", which names the resource to lock, is malformed.`: &keyfunc.Error{
			Source: "json",
			Name:   "sku", Err: fmt.Errorf("%w: s3cret", keyfunc.ErrInvalid),
		},
		`The path parameter "id", which names the resource to lock, is malformed.`: &keyfunc.Error{
			Source: "path",
			Name:   "id", Err: keyfunc.ErrInvalid,
		},
		`The value that names the resource to lock is missing or empty.`: &keyfunc.Error{
			Source: "part",
			Name:   "2", Err: keyfunc.ErrMissing,
		},
		"The body, which names the resource to lock, is missing or empty.": &keyfunc.Error{
			Source: "body",
			Err:    keyfunc.ErrMissing,
		},
		"The body is incomplete.": &keyfunc.Error{
			Source: "body",
			Err:    keyfunc.ErrInvalid,
		},
		"The body is too large.": fmt.Errorf("%w: %w",
			keyfunc.ErrTooLarge, &keyfunc.Error{Source: "body", Err: keyfunc.ErrInvalid}),
		`The value that names the resource to lock is malformed.`: keyfunc.ErrInvalid,
		`The Content-Type is not one to read the form field "sku" in.`: &keyfunc.Error{
			Source: "form",
			Name:   "sku", Err: keyfunc.ErrMediaType,
		},
		`The body is too large to read the JSON member "sku" in it.`: &keyfunc.Error{
			Source: "json",
			Name:   "sku", Err: keyfunc.ErrTooLarge,
		},
		`The body is too large to read the value that names the resource to lock in it.`: keyfunc.ErrTooLarge,
	} {
		o, _ := outcome.Of(t.Context(), err)
		if o.Detail != want {
			t.Errorf("%v: got %s, want %s", err, o.Detail, want)
		}
	}
}

func TestAHolderOfUnknownPaceIsGivenTheRestOfItsLease(t *testing.T) {
	for range 50 {
		o, _ := outcome.Of(t.Context(), &guard.HeldError{Remaining: 6600 * time.Millisecond})
		if o.RetryAfter < 7 || o.RetryAfter > 9 {
			t.Fatalf("got %d s, want 7 and jitter", o.RetryAfter)
		}
	}
}

func TestTheAnswerIsAProblemWithoutInternals(t *testing.T) {
	err := fmt.Errorf("s3cret: %w", &guard.HeldError{Key: "s3cret", Holder: guard.Holder{Host: "s3cret"}})
	o, _ := outcome.Of(t.Context(), err)
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", "3") // of the handler that did not get to write
	w.Header().Set("Etag", "x")
	outcome.Write(w, o)

	if w.Code != http.StatusConflict || w.Header().Get("Content-Type") != "application/problem+json" ||
		w.Header().Get("Retry-After") != strconv.Itoa(o.RetryAfter) ||
		w.Header().Get("Content-Length")+w.Header().Get("Etag") != "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	if strings.Contains(w.Body.String(), "s3cret") {
		t.Errorf("the body tells too much: %s", w.Body)
	}
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if body["type"] != "about:blank" || body["title"] != "Conflict" || body["status"] != 409.0 ||
		body["code"] != "lock_held" || body["detail"] == "" {
		t.Errorf("got %v", body)
	}
}

func TestALostLeaseNeverInvitesARetry(t *testing.T) {
	o, _ := outcome.Of(t.Context(), errors.Join(guard.ErrLeaseLost, estimated(time.Second)))
	w := httptest.NewRecorder()
	w.Header().Set("Retry-After", "1")
	outcome.Write(w, o)
	if w.Code != http.StatusInternalServerError || w.Header().Get("Retry-After") != "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

// untouched fails the test if anything is written.
type untouched struct{ *testing.T }

func (u untouched) Header() http.Header         { u.Error("headers were touched"); return http.Header{} }
func (u untouched) WriteHeader(status int)      { u.Errorf("status %d was written", status) }
func (u untouched) Write(b []byte) (int, error) { u.Errorf("%q was written", b); return len(b), nil }

func TestNothingIsWrittenToAClientThatHasGone(t *testing.T) {
	o, _ := outcome.Of(cancelledBy(nil), errors.Join(guard.ErrNotAcquired, context.Canceled))
	outcome.Write(untouched{t}, o)
	if o.Status != outcome.ClientGone || o.Body() != nil {
		t.Errorf("got %+v with body %s", o, o.Body())
	}
}

func TestOutcomeImportsNoFramework(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{range .Deps}}{{.}}\n{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/go-lockguard/guard"
	for dep := range strings.FieldsSeq(string(out)) {
		host, _, _ := strings.Cut(dep, "/")
		if strings.Contains(host, ".") && dep != module && dep != module+"/locker" &&
			!strings.HasPrefix(dep, module+"/internal/") && dep != module+"/keyfunc" {
			t.Errorf("outcome depends on %s", dep)
		}
	}
}
