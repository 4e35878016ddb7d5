// A service on chi as it is run in production: the middleware in their order,
// time limits, readiness, house envelopes for errors, and a shutdown that lets
// requests finish before their leases are given up.
//
//	REDIS=localhost:6379 go run ./examples/chi
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func main() {
	addr := os.Getenv("REDIS")
	if addr == "" {
		addr = "localhost:6379"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "localhost:8080", addr); err != nil {
		log.Fatal(err)
	}
}

// run checks the set-up, serves until ctx ends, and then shuts down.
func run(ctx context.Context, listen, redisAddr string) error {
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	g, err := guard.New(redislocker.New(rdb), guard.WithName("orders"))
	if err != nil {
		return err
	}
	// A Redis that is down may come back. Anything else is a wrong setting.
	if err := g.Check(ctx); err != nil && !errors.Is(err, guard.ErrUnavailable) {
		return errors.Join(err, g.Close(ctx))
	}
	srv := &http.Server{
		Addr:              listen,
		Handler:           routes(g),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // bounds the reading of a body before the wait, too
		WriteTimeout:      timeout + 5*time.Second,
	}
	failed := make(chan error, 1) // from the one goroutine below, which Shutdown ends
	go func() { failed <- srv.ListenAndServe() }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, shutdown(context.WithoutCancel(ctx), srv, g))
}

// shutdown lets requests finish for a while, those that wait for a key
// included. Only then is the guard closed: whoever still works loses its
// context, and its key is left to the TTL.
func shutdown(ctx context.Context, srv *http.Server, g *guard.Guard) error {
	ctx, cancel := context.WithTimeout(ctx, timeout+time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(ctx), g.Close(ctx))
}
