package lockmw_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard/keyfunc"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

// A timeout that calls Next in a goroutine leaves it behind with a context that
// gin gives to the next request.
func TestAGoroutineThatMayOutliveItsRequestIsRefusedOutsideALock(t *testing.T) {
	direct := func(c *gin.Context) { c.Next() }
	moved := func(c *gin.Context) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Next()
		}()
		<-done
	}
	for name, inside := range map[string]func() gin.HandlerFunc{
		"lock": func() gin.HandlerFunc { return lockmw.Static(newGuard(t), "a") },
		"once": func() gin.HandlerFunc {
			return lockmw.Idempotent(newGuard(t), keyfunc.Static("a"), time.Hour,
				httpopt.WithIdempotencyKey(keyfunc.Static("k")))
		},
	} {
		for status, outside := range map[int]gin.HandlerFunc{200: direct, 500: moved} {
			ran, r := false, gin.New()
			r.POST("/", outside, inside(), func(*gin.Context) { ran = true })
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
			if w.Code != status || ran == (status == 500) ||
				status == 500 && !strings.Contains(w.Body.String(), "lock_misconfigured") {
				t.Errorf("%s: got %d %s, want %d; the handler ran: %v", name, w.Code, w.Body, status, ran)
			}
		}
	}
}
