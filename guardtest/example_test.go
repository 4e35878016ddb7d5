package guardtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

// reserve is the code under test. It works on one item at a time.
func reserve(g *guard.Guard) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := g.Do(r.Context(), guard.Key("stock", r.FormValue("sku")), func(context.Context) error {
			w.WriteHeader(http.StatusCreated)
			return nil
		})
		if errors.Is(err, guard.ErrNotAcquired) {
			w.WriteHeader(http.StatusConflict)
		}
	}
}

func Example() {
	t := newRecorder() // in a test, its *testing.T
	defer t.end()

	g := guardtest.New(t, guard.WithMaxWait(0))
	release := g.Hold(guard.Key("stock", "4711"))

	w := httptest.NewRecorder()
	reserve(g.Guard)(w, httptest.NewRequest(http.MethodPost, "/reserve?sku=4711", nil))
	fmt.Println("while somebody else holds the key:", w.Code)

	release()
	w = httptest.NewRecorder()
	reserve(g.Guard)(w, httptest.NewRequest(http.MethodPost, "/reserve?sku=4711", nil))
	fmt.Println("when it is free:", w.Code)

	// Output:
	// while somebody else holds the key: 409
	// when it is free: 201
}
