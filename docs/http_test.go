package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

// The same order of the same session within 5 s is refused, unless the first one failed.
func Example_doubleSubmit() {
	g, end := open()
	defer end()
	answers := []int{http.StatusInternalServerError, http.StatusCreated}
	order := func(c *gin.Context) {
		c.Status(answers[0])
		answers = answers[1:]
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()

	once := g.With(guard.WithMaxWait(0), guard.WithMinHold(5*time.Second, guard.OnSuccess)) // at start-up, once
	r.POST("/orders", lockmw.Key(once, "order:{cookie.session}:{body}"), order)

	for _, body := range []string{"2 apples", "2 apples", "2 apples"} {
		req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/orders", strings.NewReader(body))
		req.AddCookie(&http.Cookie{Name: "session", Value: "ann"})
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		fmt.Println(w.Code)
	}
	// Output:
	// 500
	// 201
	// 409
}
