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

// provider takes the money. The service may die between the charge and the
// moment when its answer is kept. The next try charges again then, so the
// provider must know the key of the payment.
type provider interface {
	// charge charges an order, once for each key. Without a key, it charges.
	charge(ctx context.Context, key, order string) (receipt string, err error)
}

// ledger stands for a provider.
type ledger struct {
	mu       sync.Mutex // guards all below
	charges  map[string]int
	receipts map[string]string // by key
}

func (l *ledger) charge(_ context.Context, key, order string) (receipt string, err error) {
	time.Sleep(2 * time.Millisecond) // it is elsewhere
	l.mu.Lock()
	defer l.mu.Unlock()
	if receipt, known := l.receipts[key]; known {
		return receipt, nil
	}
	l.charges[order]++
	receipt = fmt.Sprintf("%s/%d", order, l.charges[order])
	if key != "" {
		l.receipts[key] = receipt
	}
	return receipt, nil
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
func service(g *guard.Guard, provider provider, idempotent bool) http.Handler {
	var pay http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var payment struct{ Order string }
		if err := json.NewDecoder(r.Body).Decode(&payment); err != nil || payment.Order == "" {
			http.Error(w, "want an order", http.StatusBadRequest)
			return
		}
		receipt, err := provider.charge(r.Context(), keyOf(r), payment.Order)
		if err != nil {
			http.Error(w, "the provider does not answer", http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"receipt": receipt})
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

// keyOf is the key of the payment at the provider: that of the request, with
// its tenant, so that no tenant gets the receipt of another.
func keyOf(r *http.Request) string {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return ""
	}
	tenant, _ := tenantOf(r.Context())
	return guard.Key(tenant, key)
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
