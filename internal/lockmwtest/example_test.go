package lockmwtest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockmwtest"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// An adapter's test is the function testTheTable, under a name that go test
// finds. This is the mount of net/http, on a ServeMux.
func Example() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())
	app := mount(g, func(w http.ResponseWriter, r *http.Request) error {
		l, _ := guard.LeaseFrom(r.Context())
		_, err := fmt.Fprint(w, l.Key())
		return err
	}, lockmwtest.Lock{Template: "stock:{sku}"})
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/stock/42", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 200 stock:42
}

func testTheTable(t *testing.T) {
	t.Helper()
	lockmwtest.Run(t, lockmwtest.Adapter{Mount: mount})
	lockmwtest.RunIdempotent(t, lockmwtest.Adapter{Mount: mount})
}

func mount(g *guard.Guard, h lockmwtest.Handler, locks ...lockmwtest.Lock) http.Handler {
	app := handler(h)
	for _, lock := range slices.Backward(verbs.Chain(g, locks...)) {
		app = lock(app)
	}
	mux := http.NewServeMux()
	mux.Handle("/stock/{sku}", app)
	return mux
}

func handler(h lockmwtest.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil && !lockmw.Error(w, r, err) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
}

var verbs = lockmwtest.Verbs[func(http.Handler) http.Handler]{
	Answers: lockmw.Answers, Key: lockmw.Key, Static: lockmw.Static, KeyFunc: lockmw.KeyFunc, Keys: lockmw.Keys,
	KeysFunc: lockmw.KeysFunc, Idempotent: lockmw.Idempotent, SkipSafe: lockmw.WithSkipper(lockmw.SafeMethods),
	OnError: func(f func(http.ResponseWriter, *http.Request, error)) httpopt.AnswerOption {
		return lockmw.WithErrorHandler(f)
	},
	ReplayHook: func(f func()) httpopt.IdempotentOption {
		return lockmw.WithReplayHook(func(*http.Request) { f() })
	},
}
