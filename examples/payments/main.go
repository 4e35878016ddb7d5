// Payments that are charged once, though clients repeat them. Two instances of
// a service answer POST /payments behind lockmw.Idempotent. A client sends each
// payment until it is answered. Connections break right after the work is done,
// which is when a repeat would charge twice. The service sends the key of a
// payment on to its provider, because the service itself may die there.
//
//	go run ./examples/payments                          # a Redis in memory
//	go run ./examples/payments -redis localhost:6379
//	go run ./examples/payments -header=false            # without Idempotency-Key
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// settings are what the flags set.
type settings struct {
	redis     string
	payments  int
	instances int
	cut       int
	header    bool
}

func main() {
	var s settings
	flag.StringVar(&s.redis, "redis", "", "address of Redis; without it, one in memory")
	flag.IntVar(&s.payments, "payments", 1000, "number of payments")
	flag.IntVar(&s.instances, "instances", 2, "instances of the service")
	flag.IntVar(&s.cut, "cut", 10, "one connection of so many breaks before its answer")
	flag.BoolVar(&s.header, "header", true, "send Idempotency-Key")
	flag.Parse()
	if s.payments < 1 || s.instances < 1 || s.cut < 2 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "-payments and -instances want 1 at least, -cut 2, and there are no arguments")
		os.Exit(2)
	}
	r, err := run(context.Background(), s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if r.print(os.Stdout); s.header && !r.balances() {
		os.Exit(1)
	}
}

// run sends the payments, and returns what has become of them.
func run(ctx context.Context, s settings) (r result, err error) {
	if s.redis == "" {
		memory, err := miniredis.Run()
		if err != nil {
			return result{}, err
		}
		defer memory.Close()
		s.redis = memory.Addr()
	}
	books := &ledger{charges: make(map[string]int), receipts: make(map[string]string)}
	cuts := &cutter{every: int64(s.cut)}
	var addresses []string
	for i := range s.instances {
		rdb := redis.NewClient(&redis.Options{Addr: s.redis})
		defer func() { _ = rdb.Close() }()
		g, err := guard.New(redislocker.New(rdb), guard.WithName(fmt.Sprint("payments-", i)),
			guard.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return result{}, err
		}
		defer func() { _ = g.Close(context.WithoutCancel(ctx)) }()
		server := httptest.NewServer(cuts.over(service(g, books, s.header)))
		defer server.Close()
		addresses = append(addresses, server.URL)
	}
	started := time.Now()
	c := newClient(addresses, s.header)
	if err := c.payAll(ctx, s.payments); err != nil {
		return result{}, err
	}
	return result{
		payments: s.payments, sent: c.sent.Load(), cut: cuts.cut.Load(), replayed: c.replayed.Load(),
		twice: books.twice(), none: s.payments - books.orders(), took: time.Since(started),
	}, nil
}

// result is what has become of the payments.
type result struct {
	payments            int
	sent, cut, replayed int64
	twice, none         int
	took                time.Duration
}

func (r result) balances() bool { return r.twice == 0 && r.none == 0 }

func (r result) print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%6d payments in %v\n%6d requests, %d answers cut off, %d answers replayed\n"+
		"%6d charged twice, %d not charged\n",
		r.payments, r.took.Round(time.Millisecond), r.sent, r.cut, r.replayed, r.twice, r.none)
}
