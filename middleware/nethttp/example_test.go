package lockmw_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
	"github.com/go-lockguard/guard/outcome"
)

func ExampleKey() {
	g, err := guard.New(memlocker.New(), guard.WithMaxWait(0)) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	mux := http.NewServeMux()
	mux.Handle("POST /stock/{sku}/buy", lockmw.Key(g,
		"stock:{sku}")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "bought %s", r.PathValue("sku"))
	})))

	buy := func(sku string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/stock/"+sku+"/buy", nil))
		fmt.Println(w.Code, w.Body)
	}
	buy("42")
	_ = g.Do(context.Background(), guard.Key("stock", "42"), func(context.Context) error { // the same key, in a service
		buy("42")
		return nil
	})
	// Output:
	// 200 bought 42
	// 409 {"type":"about:blank","title":"Conflict","status":409,"detail":"Another request is working on the same resource. Try again later.","code":"lock_held"}
}

// One order at a time for each user, whatever the client sends.
func ExampleKeyFunc() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	type userKey struct{}
	user := func(ctx context.Context) (string, bool) { // as set by the authentication
		name, found := ctx.Value(userKey{}).(string)
		return name, found
	}
	key := keyfunc.Join(keyfunc.Static("order"), keyfunc.FromContext(user), keyfunc.JSON("cart").UUID())
	order := lockmw.KeyFunc(g, key)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, _ := guard.LeaseFrom(r.Context())
		fmt.Println(l.Key())
		w.WriteHeader(http.StatusCreated)
	}))
	authenticated := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "ann")))
	})

	s := httptest.NewServer(authenticated)
	defer s.Close()
	res, err := s.Client().Post(s.URL, "application/json",
		strings.NewReader(`{"cart": "{6BA7B810-9DAD-11D1-80B4-00C04FD430C8}"}`))
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	fmt.Println(res.Status)
	// Output:
	// order:ann:6ba7b810-9dad-11d1-80b4-00c04fd430c8
	// 201 Created
}

// The application's own envelope instead of problem details.
func ExampleWithErrorHandler() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	envelope := lockmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		o, ours := outcome.Of(r.Context(), err)
		switch {
		case !ours: // a key function's own error error, which is in the log
			o.Status, o.Detail = http.StatusInternalServerError, "Something went wrong."
		case o.Code == "":
			return // the client has gone: only the status is sent
		}
		o.Prepare(w.Header()) // Retry-After
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(o.Status)
		_ = json.NewEncoder(w).Encode(map[string]any{"code": o.Status, "msg": o.Detail})
	})
	mux := http.NewServeMux()
	mux.Handle("POST /buy", lockmw.Key(g, "stock:{query.sku}")(http.NotFoundHandler()))
	h := lockmw.Answers(envelope)(mux) // once for all routes

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/buy", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 400 {"code":400,"msg":"The query parameter \"sku\", which names the resource to lock, is missing or empty."}
}

func ExampleError() {
	g, err := guard.New(memlocker.New())
	if err != nil {
		panic(err)
	}
	pay := func(w http.ResponseWriter, r *http.Request) {
		err := g.Do(r.Context(), guard.Key("order", 7), func(context.Context) error { return nil })
		if lockmw.Error(w, r, err) { // held, unavailable and so on, answered as by the middleware
			return
		}
		if err != nil {
			http.Error(w, "sorry", http.StatusInternalServerError)
		}
	}

	_ = g.Close(context.Background()) // as during a shutdown
	w := httptest.NewRecorder()
	pay(w, httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output:
	// 503 application/problem+json
}
