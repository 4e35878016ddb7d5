package debug_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/debug"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// Mount the page where only operators can reach it, beside pprof.
func ExampleHandler() {
	g, err := guard.New(memlocker.New(), guard.WithName("stock"))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer g.Close(ctx)

	admin := http.NewServeMux()
	admin.Handle("GET /debug/guard", debug.Handler(g))

	err = g.Do(ctx, guard.Key("stock", "4711"), func(context.Context) error {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/guard?format=json", http.NoBody))
		var page struct {
			Gates []struct {
				KeyHash string `json:"key_hash"`
				Holds   []struct {
					Guard string `json:"guard"`
				} `json:"holds"`
			} `json:"gates"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			return err
		}
		for _, key := range page.Gates {
			fmt.Println(key.KeyHash == guard.KeyHash("stock:4711"), key.Holds[0].Guard)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// true stock
	// <nil>
}
