package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

// ledger stands for a payment provider. It charges whenever it is told to.
type ledger struct {
	mu      sync.Mutex // guards charges
	charges map[string]int
}

func (l *ledger) charge(order string) (receipt string) {
	time.Sleep(2 * time.Millisecond) // it is elsewhere
	l.mu.Lock()
	defer l.mu.Unlock()
	l.charges[order]++
	return fmt.Sprintf("%s/%d", order, l.charges[order])
}

func (l *ledger) orders() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.charges)
}

// twice returns how many orders were charged more than once.
func (l *ledger) twice() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, charges := range l.charges {
		if charges > 1 {
			n++
		}
	}
	return n
}

// service is one instance of the payment service.
func service(g *guard.Guard, books *ledger, idempotent bool) http.Handler {
	var pay http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var payment struct{ Order string }
		if err := json.NewDecoder(r.Body).Decode(&payment); err != nil || payment.Order == "" {
			http.Error(w, "want an order", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"receipt": books.charge(payment.Order)})
	})
	if idempotent {
		pay = lockmw.Idempotent(g, keyfunc.FromContext(tenantOf), 24*time.Hour)(pay)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", authenticated(pay))
	return mux
}

type tenantKey struct{}

// authenticated stands for an authentication. The tenant scopes the keys, so a
// client must not be able to choose it.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !found {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, tenant)))
	})
}

func tenantOf(ctx context.Context) (string, bool) {
	tenant, ok := ctx.Value(tenantKey{}).(string)
	return tenant, ok
}

// cutter breaks every so many connections when the work is done and the answer
// is not sent.
type cutter struct {
	every        int64
	answers, cut atomic.Int64
}

func (c *cutter) over(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.answers.Add(1)%c.every != 0 {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		c.cut.Add(1)
		panic(http.ErrAbortHandler)
	})
}
