package docs_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// What operations.md says to alert on is what alerts.yaml does.
func TestTheOperationsPageNamesEachAlert(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules := read("../tracing/alerts.yaml")
	for _, page := range []string{"operations.md", "operations.zh-CN.md"} {
		text := read(page)
		said := regexp.MustCompile("`(Guard[A-Z]\\w+)`").FindAllStringSubmatch(text, -1)
		if n := strings.Count(rules, "- alert: "); n != len(said) {
			t.Errorf("%s names %d alerts of %d", page, len(said), n)
		}
		for _, name := range said {
			if !strings.Contains(rules, "- alert: "+name[1]+"\n") {
				t.Errorf("%s names %s, which is no alert", page, name[1])
			}
		}
		if expr := "guard_hold_oldest_seconds > 0.5 * guard_hold_limit_seconds"; !strings.Contains(text, expr) ||
			!strings.Contains(rules, "expr: "+expr) {
			t.Errorf("%s and alerts.yaml do not have %q", page, expr)
		}
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

// The oldest version of go-redis is that of go.mod, the newest what the
// workspace has by the laboratory.
func TestThePageOnVersionsNamesTheGoRedisThatIsTested(t *testing.T) {
	version := func(mod string) string {
		text, err := os.ReadFile(filepath.Join("..", mod))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`redis/go-redis/v9 v(\S+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s does not require go-redis", mod)
		}
		return string(found[1])
	}
	for _, page := range []string{"versions.md", "versions.zh-CN.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, mod := range []string{"go.mod", "lab/go.mod"} {
			if v := version(mod); !strings.Contains(string(text), v) {
				t.Errorf("%s does not say that %s of %s is tested", page, v, mod)
			}
		}
	}
}
