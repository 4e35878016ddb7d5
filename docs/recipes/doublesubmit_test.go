package recipes_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

// The code of double-submit.md.

func onceAMoment(g *guard.Guard) *guard.Guard {
	once := g.With(guard.WithName("submit"), guard.WithMaxWait(0),
		guard.WithMinHold(5*time.Second, guard.OnSuccess)) // at start-up
	return once
}

var submits = map[string]func(once *guard.Guard, order http.HandlerFunc) http.Handler{
	"gin": ginSubmit, "echo": echoSubmit, "net/http": netSubmit,
}

func TestASecondSubmitIsRefusedForFiveSeconds(t *testing.T) {
	for name, mount := range submits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status := http.StatusCreated
				h := mount(onceAMoment(guardtest.New(t).Guard), func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(100 * time.Millisecond)
					w.WriteHeader(status)
				})
				submit := func(user string, want int) {
					t.Helper()
					w := send(h, http.MethodPost, "/orders", user, "2 apples")
					if w.Code != want {
						t.Errorf("%s got %d, want %d", user, w.Code, want)
					}
					if want == http.StatusConflict && (w.Header().Get("Retry-After") == "" ||
						!strings.Contains(w.Body.String(), `"lock_held"`)) {
						t.Errorf("refused with %v %s", w.Header(), w.Body)
					}
				}
				status = http.StatusBadRequest
				submit("ann", http.StatusBadRequest)
				status = http.StatusCreated
				submit("ann", http.StatusCreated) // at once, because the first has failed
				submit("ann", http.StatusConflict)
				submit("ben", http.StatusCreated)
				time.Sleep(4 * time.Second)
				submit("ann", http.StatusConflict)
				time.Sleep(time.Second)
				submit("ann", http.StatusCreated)
			})
		})
	}
}

func TestASubmitIsRefusedWhileTheFirstRuns(t *testing.T) {
	for name, mount := range submits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h http.Handler
				h = mount(onceAMoment(guardtest.New(t).Guard), func(w http.ResponseWriter, r *http.Request) {
					if again := send(h, http.MethodPost, r.URL.Path, "ann", ""); again.Code != http.StatusConflict {
						t.Errorf("the second got %d", again.Code)
					}
					w.WriteHeader(http.StatusCreated)
				})
				if w := send(h, http.MethodPost, "/orders", "ann", ""); w.Code != http.StatusCreated {
					t.Errorf("the first got %d", w.Code)
				}
			})
		})
	}
}

func TestASubmitWithoutAUserIsNoLockForEverybody(t *testing.T) {
	for name, mount := range submits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := mount(onceAMoment(guardtest.New(t).Guard), func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusCreated)
				})
				w := send(h, http.MethodPost, "/orders", "", "")
				if w.Code != http.StatusInternalServerError ||
					!strings.Contains(w.Body.String(), "lock_misconfigured") {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
			})
		})
	}
}

func TestTheSameOrderOfASessionIsRefused(t *testing.T) {
	for name, mount := range submits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := mount(onceAMoment(guardtest.New(t).Guard), func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusCreated)
				})
				for _, c := range []struct {
					session, body string
					want          int
				}{
					{"a", "2 apples", http.StatusCreated},
					{"a", "2 apples", http.StatusConflict},
					{"a", "3 apples", http.StatusCreated},
					{"b", "2 apples", http.StatusCreated},
				} {
					w := send(h, http.MethodPost, "/guests/orders", "", c.body, "Cookie", "session="+c.session)
					if w.Code != c.want {
						t.Errorf("%v: got %d", c, w.Code)
					}
				}
				if w := send(h, http.MethodPost, "/guests/orders", "", "2 apples"); w.Code != http.StatusBadRequest {
					t.Errorf("without a cookie: %d", w.Code)
				}
			})
		})
	}
}
