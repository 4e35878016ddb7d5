package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func post(app http.Handler, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, nil)
	r.SetBasicAuth("ann", "")
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func TestAnOrderIsPaidByOneRequestAtATime(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	app := routes(g.Guard)
	release := g.Hold(guard.Key("order", 7)) // by another instance

	for _, id := range []string{"7", "007", "+7"} {
		w := post(app, "/orders/"+id+"/pay")
		if w.Code != http.StatusConflict || !strings.HasPrefix(w.Body.String(), `{"code":"lock_held","msg":`) ||
			w.Header().Get("Retry-After") == "" {
			t.Errorf("%s while it is held: got %d %s", id, w.Code, w.Body)
		}
	}
	if w := post(app, "/orders/8/pay"); w.Code != http.StatusOK {
		t.Errorf("another order: got %d %s", w.Code, w.Body)
	}
	release()
	if w := post(app, "/orders/007/pay"); w.Code != http.StatusOK || w.Body.String() != "order 7 is paid\n" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := post(app, "/orders/x/pay"); w.Code != http.StatusBadRequest ||
		!strings.Contains(w.Body.String(), "lock_key_invalid") {
		t.Errorf("a bad id: got %d %s", w.Code, w.Body)
	}
}

func TestAUserChecksOutOnce(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	app := routes(g.Guard)
	release := g.Hold(guard.Key("checkout", "ann"))
	if w := post(app, "/checkout"); w.Code != http.StatusConflict {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	release()
	if w := post(app, "/checkout"); w.Code != http.StatusCreated {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestWithoutRedisNothingRuns(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	mend := g.Break()
	defer mend()
	if w := post(routes(g.Guard), "/orders/7/pay"); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), "lock_unavailable") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestItStaysReadyWithoutRedis(t *testing.T) {
	g := guardtest.New(t)
	mend := g.Break()
	defer mend()
	w := httptest.NewRecorder()
	routes(g.Guard).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("/readyz answers %d while Redis is down, want 200", w.Code)
	}
}

func TestItDoesNotStartOnARedisThatDropsKeys(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	err := run(t.Context(), "127.0.0.1:0", server.Addr)
	var finding *guard.Finding
	if !errors.As(err, &finding) || finding.Name != "eviction" {
		t.Errorf("run: %v, want the finding eviction", err)
	}
}

func TestItServesUntilItIsToldToStop(t *testing.T) {
	store := miniredis.RunT(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // for a free port
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, addr, store.Addr()) }()
	for up := false; !up; {
		select {
		case err := <-ended:
			t.Fatalf("it stopped by itself: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		if resp, err := http.Get("http://" + addr + "/readyz"); err == nil {
			up = resp.StatusCode == http.StatusOK
			_ = resp.Body.Close()
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not stop")
	}
}
