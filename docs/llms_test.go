package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/gin"
)

// The code of llms.txt, in its order. What can run without a server, runs.

// These need a server and are compiled only.
var _ = []any{llmsSetUp, llmsFenced}

func llmsSetUp() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(redislocker.New(rdb, redislocker.WithPrefix("shop")), guard.WithName("stock"))
	if err != nil {
		return err
	}
	if err := g.Check(ctx); err != nil && !errors.Is(err, guard.ErrUnavailable) {
		return err // a wrong setting, which will not pass by itself
	}
	srv := &http.Server{Addr: ":8080", Handler: llmsRoutes(g), ReadTimeout: 10 * time.Second}
	go func() { log.Print(srv.ListenAndServe()) }()

	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(ctx), g.Close(ctx), rdb.Close()) // in this order
}

func llmsRoutes(g *guard.Guard) http.Handler {
	r := gin.New()
	r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), func(c *gin.Context) {
		ctx := c.Request.Context() // ends before the key can expire
		if err := llmsDeduct(ctx, c.Param("sku")); err != nil {
			c.Status(http.StatusInternalServerError)
			return
		}
		c.Status(http.StatusNoContent)
	})
	return r
}

func llmsDeduct(ctx context.Context, _ string) error { return ctx.Err() }

func ExampleGuard_llmsDo() {
	g, end := open()
	defer end()
	ctx, sku := context.Background(), "4711"

	err := g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
		return llmsDeduct(ctx, sku) // this ctx, not the outer one
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleGuard_llmsErrors() {
	g, end := open()
	defer end()
	ctx, id := context.Background(), 7
	pay := func(context.Context) error { return nil }

	err := g.Do(ctx, guard.Key("order", id), pay)
	var held *guard.HeldError
	switch {
	case err == nil:
		fmt.Println("paid")
	case guard.Ran(err): // also if the lease was lost: find out what was done
		fmt.Println("pay ran and failed:", err)
	case errors.As(err, &held):
		fmt.Println("busy, try again in", held.RetryAfter())
	default: // the store is down, the queue is full, ctx ended: nothing was done
		fmt.Println("not paid:", err)
	}
	// Output: paid
}

func ExampleGuard_llmsRefuse() {
	g, end := open()
	defer end()
	ctx, id := context.Background(), 7
	submit := func(context.Context) error { return nil }

	once := g.With(guard.WithMaxWait(0)) // at start-up, not in a handler
	err := once.Do(ctx, guard.Key("order", id), submit)
	if errors.Is(err, guard.ErrNotAcquired) {
		fmt.Println("a call for this order is running")
	}
	fmt.Println(err)
	// Output: <nil>
}

func ExampleGuard_llmsDoAll() {
	g, end := open()
	defer end()
	ctx := context.Background()

	keys := []string{guard.Key("stock", "4711"), guard.Key("stock", "4712")}
	err := g.DoAll(ctx, keys, func(ctx context.Context) error {
		return ctx.Err() // alone with both
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleGuard_llmsModes() {
	g, end := open()
	defer end()
	ctx := context.Background()
	show := func(context.Context) error { return nil }
	run := func(context.Context) error { return nil }

	read := g.With(guard.WithShared())     // at start-up: readers together, the writer alone with g
	export := g.With(guard.WithPermits(3)) // at most three at once, on all instances
	err := errors.Join(
		read.Do(ctx, guard.Key("doc", 7), show),
		export.Do(ctx, guard.Key("exports"), run))
	fmt.Println(err)
	// Output: <nil>
}

func llmsFenced(ctx context.Context, g *guard.Guard, db *sql.DB, fences *sqlfence.Table, sku string) error {
	key := guard.Key("stock", sku)
	err := g.Do(ctx, key, func(ctx context.Context) error {
		token, err := guard.FencingToken(ctx)
		if err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after Commit it does nothing
		if err := fences.Check(ctx, tx, key, token); err != nil {
			return err // fence.ErrLateWrite: a newer holder has been here
		}
		if _, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE sku = $1", sku); err != nil {
			return err
		}
		return tx.Commit() // inside the function, or the next holder reads too early
	})
	return err
}

func ExampleGuard_llmsJob() {
	g, end := open()
	defer end()
	ctx := context.Background()
	report := func(context.Context) error { return nil }

	nightly := g.With(guard.WithMaxHold(time.Hour), guard.WithMinHold(time.Minute)) // at start-up
	ran, err := nightly.TryDo(ctx, guard.Key("job", "report"), report)
	fmt.Println(ran, err)
	// Output: true <nil>
}

func TestLlmsADeductionIsRefusedWhileTheKeyIsHeld(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0))
	g.Hold(guard.Key("stock", "4711"))
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/skus/4711/deduct", nil)
	llmsRoutes(g.Guard).ServeHTTP(w, r)
	if w.Code != http.StatusConflict {
		t.Errorf("answered %d, want 409", w.Code)
	}
}
