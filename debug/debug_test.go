package debug_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/debug"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "stock:<b>42"

func newGuard(t *testing.T, l guard.Locker) *guard.Guard {
	t.Helper()
	return testguard.New(t, l, guard.WithName("stock"))
}

func get(t *testing.T, h http.Handler, url string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", url, w.Code, w.Body)
	}
	return w.Body.String()
}

func has(t *testing.T, body string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(body, s) {
			t.Errorf("%q is missing in %s", s, body)
		}
	}
}

// busy holds key for 31 s while look runs. One call of the process waits for
// key.
func busy(t *testing.T, look func(t *testing.T, g *guard.Guard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memlocker.New())
		end, done := make(chan struct{}), make(chan error, 2)
		go func() { done <- g.Do(t.Context(), key, func(context.Context) error { sells(end); return nil }) }()
		time.Sleep(30 * time.Second)
		go func() {
			done <- g.With(guard.WithName("waits")).Do(t.Context(), key, func(context.Context) error { return nil })
		}()
		time.Sleep(time.Second)
		look(t, g)
		close(end)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func sells(end chan struct{}) { <-end }

func TestThePageTellsAKeptKeyFromOneThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memlocker.New()).With(guard.WithMinHold(time.Minute))
		h := debug.Handler(g)
		err := g.Do(t.Context(), key, func(context.Context) error {
			if strings.Contains(get(t, h, "/"), "MinHold") || strings.Contains(get(t, h, "/?format=json"), `"cooldown"`) {
				t.Error("cooldown, while the function runs")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		has(t, get(t, h, "/"), "has returned, in the cooldown of MinHold")
		has(t, get(t, h, "/?format=json"), `"cooldown": true`)
	})
}

func TestThePageTellsAnIdleKeyFromOneThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memlocker.New()).With(guard.WithLinger(time.Second))
		h := debug.Handler(g)
		for range 5 { // enough for a key to linger
			err := g.Do(t.Context(), key, func(context.Context) error {
				if strings.Contains(get(t, h, "/"), "WithLinger") || strings.Contains(get(t, h, "/?format=json"), `"idle"`) {
					t.Error("idle, while the function runs")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		has(t, get(t, h, "/"), "idle since "+time.Now().Format("15:04:05.000")+", by WithLinger")
		has(t, get(t, h, "/?store=1"), ", may be idle")
		has(t, get(t, h, "/?format=json&store=1"), `"idle": true`, `"lingers": true`)
	})
}

// A leader hears requests by a key of its own, which is nobody's business. A
// standby waits without an end.
func TestThePageShowsALeaderAndItsStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlocker.New()
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		leads := newGuard(t, store)
		for _, g := range []*guard.Guard{leads, leads.With(guard.WithName("standby"))} {
			ended.Go(func() {
				_ = g.Lead(ctx, key, func(ctx context.Context) error {
					guard.Wanted(ctx)
					<-ctx.Done()
					return ctx.Err()
				})
			})
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		h := debug.Handler(leads)
		has(t, get(t, h, "/"), "1 key<", "standby for 1m0s, no limit")
		var page struct {
			Gates []struct {
				Waiters []map[string]any `json:"waiters"`
			} `json:"gates"`
			Store struct {
				Keys []map[string]any `json:"keys"`
			} `json:"store"`
		}
		if err := json.Unmarshal([]byte(get(t, h, "/?format=json&store=1")), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Gates) != 1 || len(page.Gates[0].Waiters) != 1 || len(page.Store.Keys) != 1 {
			t.Fatalf("%+v, want one key with one waiter, and the same in the store", page)
		}
		if left, told := page.Gates[0].Waiters[0]["wait_left"]; told {
			t.Errorf("the standby waits for %v s more, want no limit", left)
		}
		stop()
		ended.Wait()
	})
}

func TestThePageShowsHoldersAndWaitersForPeople(t *testing.T) {
	busy(t, func(t *testing.T, g *guard.Guard) { //nolint:thelper // the test itself
		h := debug.Handler(g)
		body := get(t, h, "/debug/guard")
		has(t, body, guard.KeyHash(key), "31s", "1m0s", "waits for 1s, 2s left", "1 key")
		if strings.Contains(body, "stock:") || strings.Contains(body, "sells") || strings.Contains(body, "The store") {
			t.Error("nobody asked for the key, the stack or the store:", body)
		}
		has(t, get(t, h, "/?stacks=1"), "debug_test.sells")
		has(t, get(t, h, "/?store=1"), "The store", "stock on ", "TTL left")
		body = get(t, debug.Handler(g, debug.WithKeys()), "/?store=1")
		has(t, body, "stock:&lt;b&gt;42")
		if strings.Contains(body, "<b>") {
			t.Error("a key is not escaped")
		}
	})
}

func TestThePageShowsTheModeAndEveryOwner(t *testing.T) {
	for want, mode := range map[string]guard.Option{
		"shared by 2": guard.WithShared(), "2 of 4 permits": guard.WithPermits(4),
	} {
		synctest.Test(t, func(t *testing.T) {
			mem := memlocker.New()
			here, elsewhere := newGuard(t, mem).With(mode), newGuard(t, mem.Peer()).With(mode)
			err := elsewhere.Do(t.Context(), key, func(context.Context) error {
				return here.Do(t.Context(), key, func(context.Context) error {
					h := debug.Handler(here)
					has(t, get(t, h, "/?store=1"), want, "<div>stock ("+here.Snapshot(false)[0].Holds[0].Mode+")")
					var p struct {
						Gates []struct {
							Holds []struct{ Mode, Owner string }
						}
						Store struct {
							Keys []struct {
								Shared string
								Owners []struct {
									Owner  string
									Holder struct{ Instance string }
								}
							}
						}
					}
					if err := json.Unmarshal([]byte(get(t, h, "/?format=json&store=1")), &p); err != nil {
						return err
					}
					k := p.Store.Keys[0]
					if k.Shared != want || len(k.Owners) != 2 || k.Owners[0].Holder == k.Owners[1].Holder {
						t.Errorf("%+v", p)
					}
					if mine := p.Gates[0].Holds[0].Owner; k.Owners[0].Owner != mine && k.Owners[1].Owner != mine {
						t.Errorf("%s is none of the owners: %+v", mine, k.Owners)
					}
					return nil
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestThePageShowsTheSameToTools(t *testing.T) {
	busy(t, func(t *testing.T, g *guard.Guard) { //nolint:thelper // the test itself
		var p struct {
			Gates []struct {
				Hash  string `json:"key_hash"`
				Key   string
				Holds []struct {
					Guard, Owner, Stack string
					Held                float64
				}
				Waiting int
			}
			Store struct {
				Keys []struct {
					Hash   string `json:"key_hash"`
					Owner  string
					Holder struct{ PID int }
				}
			}
		}
		body := get(t, debug.Handler(g), "/?format=json&stacks=true&store=1")
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		if len(p.Gates) != 1 || len(p.Gates[0].Holds) != 1 || len(p.Store.Keys) != 1 {
			t.Fatal(body)
		}
		gate, hold, stored := p.Gates[0], p.Gates[0].Holds[0], p.Store.Keys[0]
		if gate.Hash != guard.KeyHash(key) || gate.Key != "" || gate.Waiting != 1 ||
			hold.Guard != "stock" || hold.Held != 31 || !strings.Contains(hold.Stack, "sells") ||
			stored.Owner != hold.Owner || stored.Hash != gate.Hash || stored.Holder.PID == 0 {
			t.Error(body)
		}
	})
}

func TestThePageStaysWhenTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		g := newGuard(t, mem)
		mend := mem.Break()
		has(t, get(t, debug.Handler(g), "/?store=1"), "Nobody holds", "unavailable")
		mend()
	})
}

func TestThePageRefusesWhatItDoesNotKnow(t *testing.T) {
	h := debug.Handler(nil)
	for url, want := range map[string]int{
		"/?limit=x":  http.StatusBadRequest,
		"/?limit=-1": http.StatusBadRequest, "/": http.StatusOK,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", url, w.Code, want)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}
