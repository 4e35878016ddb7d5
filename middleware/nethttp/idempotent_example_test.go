package lockmw_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

type tenantKey struct{}

// The client sends a payment again, because it has seen no answer. The payment
// is made once.
func ExampleIdempotent() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	payments := 0
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		payments++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "payment %d", payments)
	})
	tenant := keyfunc.FromContext(func(ctx context.Context) (string, bool) { // set by the authentication
		t, found := ctx.Value(tenantKey{}).(string)
		return t, found
	})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", lockmw.Idempotent(g, tenant, 24*time.Hour)(pay))

	send := func(body string) {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
		r = r.WithContext(context.WithValue(r.Context(), tenantKey{}, "shop"))
		r.Header.Set("Idempotency-Key", "5d9c-order-42")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Body)
		fmt.Printf("%d %q %s\n", w.Code, w.Header().Get("Idempotency-Replayed"), text)
	}
	send("10 EUR")
	send("10 EUR")
	send("11 EUR")
	// Output:
	// 201 "" payment 1
	// 201 "true" payment 1
	// 422 "" {"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"The Idempotency-Key was used for another request.","code":"idempotency_key_reused"}
}
