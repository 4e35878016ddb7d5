package docs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/debug"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The code of operations.md.

func mountDebug(admin *http.ServeMux, g *guard.Guard) {
	admin.Handle("/debug/guard", debug.Handler(g))
}

func TestTheDebugPageIsWhereItIsMounted(t *testing.T) {
	admin := http.NewServeMux()
	mountDebug(admin, guardtest.New(t).Guard)
	w := httptest.NewRecorder()
	admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/guard", nil))
	if w.Code != http.StatusOK {
		t.Errorf("got %d", w.Code)
	}
}

func acceptEviction(rdb *redis.Client) (*guard.Guard, error) {
	g, err := guard.New(redislocker.New(rdb), guard.WithAcceptedFindings(redislocker.FindingEviction))
	return g, err
}

func TestAnAcceptedFindingIsNotRefused(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").Addr)
	g, err := acceptEviction(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(t.Context()) }()
	if err := g.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
