package lockmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/locker/memlocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
	"github.com/go-lockguard/guard/middleware/httpopt"
)

func ExampleIdempotent() {
	gin.SetMode(gin.ReleaseMode)
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	payments := 0
	tenant := keyfunc.Header("X-Tenant") // set by the gateway
	r := gin.New()
	r.POST("/payments", lockmw.Idempotent(g, tenant, 24*time.Hour), func(c *gin.Context) {
		payments++
		c.String(http.StatusCreated, "payment %d", payments)
	})

	for range 2 {
		req := httptest.NewRequest(http.MethodPost, "/payments", http.NoBody)
		req.Header.Set("X-Tenant", "shop")
		req.Header.Set("Idempotency-Key", "5d9c-order-42")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		fmt.Printf("%d %s %q\n", w.Code, w.Body, w.Header().Get("Idempotency-Replayed"))
	}
	// Output:
	// 201 payment 1 ""
	// 201 payment 1 "true"
}

// GitHub repeats a delivery with the same id.
func ExampleWithReplayHook() {
	gin.SetMode(gin.ReleaseMode)
	g, err := guard.New(memlocker.New()) // redislocker.New(rdb) in production
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	r := gin.New()
	once := lockmw.Idempotent(g, keyfunc.Static("github:acme"), 4*24*time.Hour,
		httpopt.WithIdempotencyKey(keyfunc.Header("X-GitHub-Delivery")), httpopt.WithoutFingerprint(),
		lockmw.WithReplayHook(func(c *gin.Context) { fmt.Println("replay on", c.FullPath()) }))
	r.POST("/hooks", once, func(c *gin.Context) { fmt.Println("push") }) // first of all, verify the signature

	for range 2 {
		req := httptest.NewRequest(http.MethodPost, "/hooks", http.NoBody)
		req.Header.Set("X-GitHub-Delivery", "72d3162e")
		r.ServeHTTP(httptest.NewRecorder(), req)
	}
	// Output:
	// push
	// replay on /hooks
}
