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
	for _, l := range slices.Backward(locks) {
		app = middleware(g, l)(app)
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

func middleware(g *guard.Guard, l lockmwtest.Lock) func(http.Handler) http.Handler {
	answers := l.AnswerOptions()
	if l.OnError != nil {
		answers = append(answers, lockmw.WithErrorHandler(l.OnError))
	}
	if l.Answers {
		return lockmw.Answers(answers...)
	}
	opts := l.Options(answers)
	if l.SkipSafe {
		opts = append(opts, lockmw.WithSkipper(lockmw.SafeMethods))
	}
	once := l.IdempotentOptions(opts)
	if l.ReplayHook != nil {
		once = append(once, lockmw.WithReplayHook(func(*http.Request) { l.ReplayHook() }))
	}
	switch {
	case l.TTL != 0:
		return lockmw.Idempotent(g, l.Scope, l.TTL, once...)
	case l.Key != nil:
		return lockmw.KeyFunc(g, l.Key, opts...)
	case l.Templates != nil:
		return lockmw.Keys(g, l.Templates...)
	case l.Keys != nil:
		return lockmw.KeysFunc(g, l.Keys, opts...)
	case l.Static != "":
		return lockmw.Static(g, l.Static, opts...)
	default:
		return lockmw.Key(g, l.Template, opts...)
	}
}
