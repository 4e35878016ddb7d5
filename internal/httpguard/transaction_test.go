package httpguard_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/sqltx"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// exchange is a request whose answer a Capture holds back.
type exchange struct {
	r       *http.Request
	w       http.ResponseWriter
	held    *httpguard.Capture
	limit   int
	handler http.HandlerFunc
}

func (x *exchange) Request() *http.Request        { return x.r }
func (x *exchange) Keys() (httpguard.Keys, error) { return httpguard.One("ann", nil) }
func (x *exchange) Begun() bool                   { return x.held.Passed() }
func (x *exchange) Failed() bool                  { return false }
func (x *exchange) Pattern() string               { return "/pay" }
func (x *exchange) Held() httpguard.Answer        { return x.held.Held() }
func (x *exchange) Send()                         { x.held.Send() }
func (x *exchange) Whole() bool                   { return x.held.Whole() }
func (x *exchange) Replay(a httpguard.Answer)     { a.Write(x.w) }

func (x *exchange) Next(l *guard.Lease) {
	x.held = httpguard.NewCapture(x.w, x.limit)
	x.handler(x.held, x.r.WithContext(l.Context()))
}

// until knows whether anything was sent.
type until struct {
	http.ResponseWriter

	sent bool
}

func (u *until) WriteHeader(status int) {
	u.sent = true
	u.ResponseWriter.WriteHeader(status)
}

func (u *until) Write(b []byte) (int, error) {
	u.sent = true
	return u.ResponseWriter.Write(b)
}

func (u *until) Flush() { u.sent = true }

func (x *exchange) Value(f keyfunc.Func) (string, error) { return f(x.r) }

// However long an answer is, and whatever its handler does to send it, nothing
// of it is sent before COMMIT.
func TestInTransactionNothingIsSentBeforeCommit(t *testing.T) {
	long := strings.Repeat("x", 100_000) // over the limit of what the store of the locks keeps
	write := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }
	for name, handler := range map[string]http.HandlerFunc{
		"long": write,
		"flushed": func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			write(w, r)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		},
		"hijacked": func(w http.ResponseWriter, r *http.Request) {
			if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("the connection is taken over: %v", err)
			}
			write(w, r)
		},
	} {
		for _, commit := range []error{nil, errors.New("no COMMIT")} {
			x := &exchange{w: &until{ResponseWriter: httptest.NewRecorder()}, handler: handler}
			kept, logs, err := serveInTransaction(t, x, commit)
			w := x.w.(*until)
			told := strings.Contains(logs, "the database did not confirm a request's work")
			switch body := w.ResponseWriter.(*httptest.ResponseRecorder).Body.String(); {
			case commit == nil && (err != nil || body != long || told || !strings.Contains(kept, long)):
				t.Errorf("%s: %v, %d bytes, %d kept, log %s", name, err, len(body), len(kept), logs)
			case commit != nil && (!errors.Is(err, guard.ErrUnavailable) || w.sent || !told):
				t.Errorf("%s, no COMMIT: %v, %d bytes, log %s", name, err, len(body), logs)
			}
		}
	}
}

// serveInTransaction serves x in a transaction whose COMMIT ends with commit.
func serveInTransaction(t *testing.T, x *exchange, commit error) (kept, logs string, err error) {
	t.Helper()
	var lines bytes.Buffer
	g := testguard.New(t, memlocker.New(), guard.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	once := func(ctx context.Context, g *guard.Guard, key string, _ guard.OnceOptions,
		fn func(context.Context) ([]byte, error),
	) (guard.OnceResult, error) {
		var record []byte
		err := g.Do(ctx, key, func(ctx context.Context) (err error) {
			record, err = fn(ctx)
			return err
		})
		kept = string(record)
		if errors.As(err, new(*guard.FinalError)) {
			kept = "rolled back"
		}
		if x.w.(*until).sent {
			t.Error("sent before COMMIT")
		}
		return guard.OnceResult{Record: record, Fresh: true}, errors.Join(err, commit)
	}
	var with httpguard.Options[func(error), *http.Request]
	cfg := httpguard.NewConfig([]httpguard.Option[func(error), *http.Request]{
		with.InTransactionOf(once), with.BodyLimit(100),
	})
	i := cfg.Idempotent(g, time.Hour)
	x.r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", http.NoBody)
	x.r.Header.Set("Idempotency-Key", "k")
	x.limit = i.Limit()
	err = i.Serve(x)
	return kept, lines.String(), err
}

// What the handler answers, or the database says, is what becomes of the work.
func TestInTransactionSaysWhatBecameOfTheWork(t *testing.T) {
	wrong := errors.New("no")
	for name, row := range map[string]struct {
		status int
		commit error
		want   error // nil: the answer of the handler
		kept   bool
	}{
		"done":                       {201, nil, nil, true},
		"declined":                   {409, nil, nil, false},
		"declined, and not kept":     {409, guard.ErrNotRecorded, guard.ErrUnavailable, false},
		"no answer to COMMIT":        {201, wrong, guard.ErrUnavailable, true},
		"refused, and may pass":      {201, &sqltx.RefusedError{Again: true, Err: wrong}, guard.ErrUnavailable, true},
		"refused, and would be next": {201, &sqltx.RefusedError{Err: wrong}, wrong, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			x := &exchange{w: &until{ResponseWriter: w}, handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(row.status)
			}}
			kept, _, err := serveInTransaction(t, x, row.commit)
			if sent := x.w.(*until).sent; sent != (row.want == nil) || sent && w.Code != row.status {
				t.Errorf("sent %v, %d", sent, w.Code)
			}
			if (kept != "rolled back") != row.kept {
				t.Errorf("kept %q", kept)
			}
			unavailable := errors.Is(err, guard.ErrUnavailable)
			if !errors.Is(err, row.want) || unavailable != errors.Is(row.want, guard.ErrUnavailable) {
				t.Errorf("got %v, want %v", err, row.want)
			}
		})
	}
}
