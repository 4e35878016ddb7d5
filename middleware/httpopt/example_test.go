package httpopt_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/middleware/httpopt"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// A provider repeats an event until it is told that the event has arrived. The
// id in its body says which one it is, whatever else has changed in there.
func ExampleWithIdempotencyKey() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	events := 0
	paid := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		events++
		fmt.Fprintf(w, "event %d", events)
	})
	once := lockmw.Idempotent(g, keyfunc.Static("acct_1"), 4*24*time.Hour,
		httpopt.WithIdempotencyKey(keyfunc.JSON("id")), httpopt.WithoutFingerprint())

	for _, body := range []string{`{"id": "evt_1", "try": 1}`, `{"id": "evt_1", "try": 2}`, `{"id": "evt_2"}`} {
		w := httptest.NewRecorder()
		once(paid).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body)))
		fmt.Printf("%s %q\n", w.Body, w.Header().Get("Idempotency-Replayed"))
	}
	// Output:
	// event 1 ""
	// event 1 "true"
	// event 2 ""
}

// A client that makes its body anew at each try still sends the same payment.
func ExampleWithFingerprint() {
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	once := lockmw.Idempotent(g, keyfunc.Static("shop"), 24*time.Hour,
		httpopt.WithFingerprint(keyfunc.JSON("account"), keyfunc.JSON("cents")),
		lockmw.WithReplayHook(func(r *http.Request) { fmt.Println("replay of", r.URL.Path) }))

	for _, body := range []string{
		`{"account": "7", "cents": 10, "sent": 1}`, `{"cents": 10, "account": "7", "sent": 2}`,
		`{"account": "7", "cents": 11}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "5d9c-order-42")
		w := httptest.NewRecorder()
		once(pay).ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 201
	// replay of /payments
	// 201
	// 422
}
