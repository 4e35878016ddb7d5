package outcome_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/outcome"
)

// A handler that no adapter fits answers the guard's errors by the same table.
func ExampleOf() {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(0)) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	key := guard.Key("stock", "4711")
	buy := func(w http.ResponseWriter, r *http.Request) {
		err := g.Do(r.Context(), key, func(context.Context) error {
			w.WriteHeader(http.StatusNoContent)
			return nil
		})
		if err == nil {
			return
		}
		o, ours := outcome.Of(r.Context(), err)
		if !ours { // an error of the function
			http.Error(w, "something went wrong", http.StatusInternalServerError)
			return
		}
		outcome.Write(w, o)
	}

	answer := func() {
		w := httptest.NewRecorder()
		buy(w, httptest.NewRequest(http.MethodPost, "/stock/4711/buy", http.NoBody))
		fmt.Println(w.Code, "Retry-After:", w.Header().Get("Retry-After") != "")
		fmt.Print(w.Body)
	}
	answer()
	_ = g.Do(context.Background(), key, func(context.Context) error { // another request
		answer()
		return nil
	})
	// Output:
	// 204 Retry-After: false
	// 409 Retry-After: true
	// {"type":"about:blank","title":"Conflict","status":409,"detail":"Another request is working on the same resource. Try again later.","code":"lock_held"}
}
