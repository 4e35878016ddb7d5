package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/guardtest/explore"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/outcome"
)

// The code of background-work.md.

// exports runs one export of a tenant at a time.
type exports struct {
	guard  *guard.Guard // with a MaxHold as long as an export may take
	export func(ctx context.Context, tenant string) error
}

func newExports(g *guard.Guard, export func(ctx context.Context, tenant string) error) *exports {
	return &exports{g.With(guard.WithName("export"), guard.WithMaxHold(time.Hour)), export}
}

// start begins an export that outlives its request, and answers 202.
func (s *exports) start(w http.ResponseWriter, r *http.Request, tenant string) {
	ctx := context.WithoutCancel(r.Context()) // goes on when the request has ended
	lease, err := s.guard.TryAcquire(ctx, guard.Key("export", tenant))
	if o, ours := outcome.Of(r.Context(), err); ours {
		outcome.Write(w, o) // 409 if one is under way
		return
	}
	go func() {
		err := s.export(lease.Context(), tenant) // ends when the lease does
		if err := errors.Join(err, lease.Release(ctx)); err != nil {
			log.Print("export: ", err)
		}
	}()
	w.Header().Set("Location", "/exports/"+tenant)
	w.WriteHeader(http.StatusAccepted)
}

// state answers whether an export is under way, on whichever instance.
func (s *exports) state(w http.ResponseWriter, r *http.Request, tenant string) {
	state, err := s.guard.Inspect(r.Context(), guard.Key("export", tenant))
	if o, ours := outcome.Of(r.Context(), err); ours {
		outcome.Write(w, o)
		return
	}
	if err != nil { // as of a store that cannot be looked into
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"running":%t}`, state.Held)
}

// An error of any kind says nothing about the export.
func TestAStateThatIsUnknownIsNoAnswer(t *testing.T) {
	silent := memlocker.New()
	mend := silent.Break()
	defer mend()
	for name, store := range map[string]guard.Locker{
		"silent": silent, "blind": testguard.Plain{Locker: memlocker.New()},
	} {
		g, err := guard.New(store)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		newExports(g, nil).state(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "a")
		if w.Code < http.StatusInternalServerError || strings.Contains(w.Body.String(), "running") {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

var exportMounts = map[string]func(s *exports) http.Handler{
	"gin": ginExports, "echo": echoExports, "net/http": netExports,
}

func TestWorkOutlivesItsRequestUnderItsLease(t *testing.T) {
	for name, mount := range exportMounts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := 0
				g := guardtest.New(t)
				h := mount(newExports(g.Guard, func(ctx context.Context, _ string) error {
					time.Sleep(10 * time.Minute) // much longer than the TTL and the default MaxHold
					if err := context.Cause(ctx); err != nil {
						t.Error(err)
					}
					done++
					return nil
				}))
				expect := func(method, target string, status int, body string) {
					t.Helper()
					w := send(h, method, target, "ann", "")
					if w.Code != status || body != "" && w.Body.String() != body {
						t.Errorf("%s %s: got %d %s, want %d %s", method, target, w.Code, w.Body, status, body)
					}
				}
				expect(http.MethodGet, "/exports/a", http.StatusOK, `{"running":false}`)
				expect(http.MethodPost, "/exports/a", http.StatusAccepted, "")
				time.Sleep(5 * time.Minute)
				expect(http.MethodPost, "/exports/a", http.StatusConflict, "")
				expect(http.MethodPost, "/exports/b", http.StatusAccepted, "")
				expect(http.MethodGet, "/exports/a", http.StatusOK, `{"running":true}`)
				time.Sleep(6 * time.Minute)
				synctest.Wait()
				expect(http.MethodGet, "/exports/a", http.StatusOK, `{"running":false}`)
				if done != 1 {
					t.Errorf("%d exports are done", done)
				}
				if err := g.Close(t.Context()); err != nil || done != 2 { // it waits for the other
					t.Errorf("closed with %v after %d exports", err, done)
				}
			})
		})
	}
}

// exporting is a client that wants an export, and asks until it is in the
// table. The check is that no two are written at once while nothing is broken,
// and that who is told of an export finds it, whatever breaks.
func exporting(start func(s *exports, w http.ResponseWriter, r *http.Request, tenant string)) func(*explore.World) {
	return func(w *explore.World) {
		writing, beside, complete, told := 0, false, false, 0
		work := func(ctx context.Context, _ string) error {
			if err := w.Step(ctx, "write the first half", func() error {
				writing++
				beside = beside || writing > 1
				return nil
			}); err != nil {
				return err
			}
			time.Sleep(6 * time.Second)
			return w.Step(ctx, "write the second half", func() error { writing--; complete = true; return nil })
		}
		for _, name := range []string{"ann", "ben"} {
			w.Deliver(name, func(ctx context.Context, g *guard.Guard) error {
				s := newExports(g, work)
				rec := httptest.NewRecorder()
				start(s, rec, httptest.NewRequestWithContext(ctx, http.MethodPost, "/exports/a", nil), "a")
				w.Log(ctx, "is answered %d", rec.Code)
				for range 6 {
					time.Sleep(2 * time.Second)
					rec := httptest.NewRecorder()
					s.state(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/exports/a", nil), "a")
					if rec.Body.String() == `{"running":false}` {
						break
					}
				}
				done := false
				if err := w.Step(ctx, "look", func() error { done = complete; return nil }); err != nil {
					return err
				}
				if !done {
					return errors.New("not running, and not done")
				}
				told++
				return nil
			})
		}
		w.Check(func() error {
			switch {
			case w.Calm() && beside:
				return errors.New("two exports of one tenant at once")
			case told > 0 && !complete:
				return errors.New("a client was told of an export that is not there")
			}
			return nil
		})
	}
}

func TestAnExportIsMadeWhereverItsProcessDies(t *testing.T) {
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	runs := explore.Runs(testsize.Pick(500, 100))
	explore.Test(t, exporting((*exports).start), runs)
	story := explore.Find(t, exporting(func(s *exports, w http.ResponseWriter, r *http.Request, tenant string) {
		ctx := context.WithoutCancel(r.Context())
		lease, err := s.guard.TryAcquire(ctx, guard.Key("export", tenant))
		if o, ours := outcome.Of(r.Context(), err); ours {
			outcome.Write(w, o)
			return
		}
		go func() { _ = s.export(ctx, tenant) }()
		_ = lease.Release(ctx) // with the request, not with the work
		w.WriteHeader(http.StatusAccepted)
	}), runs)
	if story == "" {
		t.Error("a lease that ends with the request does not matter")
	}
}
