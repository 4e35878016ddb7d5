package lockmw_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard/httpguardtest"
	lockmw "github.com/go-lockguard/guard/middleware/nethttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(g *guard.Guard, h httpguardtest.Handler, templates ...string) http.Handler {
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil && !lockmw.Error(w, r, err) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for i := len(templates) - 1; i >= 0; i-- {
		next = lockmw.Key(g, templates[i])(next)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /stock/{sku}", next)
	return mux
}

func TestTheTable(t *testing.T) { httpguardtest.Run(t, httpguardtest.Adapter{Mount: mount}) }

func TestAWaiterWhoseClientHasGoneLeavesTheQueue(t *testing.T) {
	httpguardtest.RunSockets(t, httpguardtest.Adapter{Mount: mount})
}
