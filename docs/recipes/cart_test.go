package recipes_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

// The code of session-lock.md.

var carts = map[string]func(g *guard.Guard, cart http.HandlerFunc) http.Handler{
	"gin": ginCart, "echo": echoCart, "net/http": netCart,
}

func TestOneUserChangesOneThingAtATime(t *testing.T) {
	for name, mount := range carts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // guards inside
				inside := map[string]int{}
				h := mount(guardtest.New(t).Guard, func(_ http.ResponseWriter, r *http.Request) {
					who := r.Method + " " + r.Header.Get("X-User")
					count := func(n int) int {
						mu.Lock()
						defer mu.Unlock()
						inside[who] += n
						return inside[who]
					}
					if count(1) > 1 && r.Method == http.MethodPost {
						t.Errorf("two at a time: %s", who)
					}
					time.Sleep(100 * time.Millisecond)
					count(-1)
				})
				began := time.Now()
				took := map[string]time.Duration{}
				var wg sync.WaitGroup
				for _, c := range []struct{ method, user string }{
					{http.MethodPost, "ann"},
					{http.MethodPost, "ann"},
					{http.MethodPost, "ann"},
					{http.MethodPost, "ben"},
					{http.MethodGet, "ann"},
				} {
					wg.Go(func() {
						if w := send(h, c.method, "/cart", c.user, ""); w.Code != http.StatusOK {
							t.Errorf("%v: got %d", c, w.Code)
						}
						mu.Lock()
						defer mu.Unlock()
						took[c.method+" "+c.user] = max(took[c.method+" "+c.user], time.Since(began))
					})
					synctest.Wait()
				}
				wg.Wait()
				for who, want := range map[string]time.Duration{
					"POST ann": 300 * time.Millisecond,
					"POST ben": 100 * time.Millisecond,
					"GET ann":  100 * time.Millisecond,
				} {
					if took[who] != want {
						t.Errorf("%s: all done after %v, want %v", who, took[who], want)
					}
				}
			})
		})
	}
}

func TestAChangeIsRefusedWhenOthersOfTheUserTakeTooLong(t *testing.T) {
	for name, mount := range carts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := func(http.ResponseWriter, *http.Request) { time.Sleep(4 * time.Second) }
				h := mount(guardtest.New(t).Guard, slow)
				var wg sync.WaitGroup
				wg.Go(func() { send(h, http.MethodPost, "/cart", "ann", "") })
				synctest.Wait()
				began := time.Now()
				w := send(h, http.MethodPost, "/cart", "ann", "")
				if took := time.Since(began); w.Code != http.StatusConflict || took != 3*time.Second {
					t.Errorf("got %d after %v", w.Code, took)
				}
				wg.Wait()
			})
		})
	}
}

func TestACartWithoutAUserIsNoLockForEverybody(t *testing.T) {
	for name, mount := range carts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := mount(guardtest.New(t).Guard, func(http.ResponseWriter, *http.Request) {})
				w := send(h, http.MethodPost, "/cart", "", "")
				if w.Code != http.StatusInternalServerError ||
					!strings.Contains(w.Body.String(), "lock_misconfigured") {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
				if w := send(h, http.MethodGet, "/cart", "", ""); w.Code != http.StatusOK {
					t.Errorf("reading: got %d", w.Code)
				}
			})
		})
	}
}
