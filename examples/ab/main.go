// Ab is the load test of those who write a lock on Redis by hand: 1,000
// requests, 100 at once, each of which takes the next number of a sequence. It
// sends them over HTTP to one instance and to two, for one kind of lock after
// the other, and prints a table like that of ab.
//
//	go run ./examples/ab                         # starts a redis-server
//	REDIS=localhost:6379 go run ./examples/ab -n 2000 -c 200
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

func main() {
	var load load
	flag.IntVar(&load.requests, "n", 1000, "number of `requests`")
	flag.IntVar(&load.atOnce, "c", 100, "how many are under way at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Getenv("REDIS"), load)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run prints the table. Without an address it starts a server.
func run(ctx context.Context, w io.Writer, addr string, load load) error {
	if load.requests < 1 || load.atOnce < 1 {
		return errors.New("-n and -c must be at least 1")
	}
	if addr == "" {
		dir, err := os.MkdirTemp("", "guard-ab")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		lab := &redisproc.Lab{Dir: dir}
		defer lab.Close()
		server, err := lab.Start()
		if err != nil {
			return err
		}
		addr = server.Addr
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	for instances := 1; instances <= 2; instances++ {
		fmt.Fprintf(w, "%d requests, %d at once, instances: %d\n", load.requests, load.atOnce, instances)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "lock\trequests/s\tp50\tp99\tRedis commands\tdifferent numbers\t")
		for _, kind := range kinds {
			r, err := measure(ctx, rdb, addr, instances, kind, load)
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			fmt.Fprintf(table, "%s\t%.0f\t%v\t%v\t%d\t%s\t\n", kind.name, r.rate, r.quantile(0.5), r.quantile(0.99),
				r.commands, r.verdict())
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}

// result is what one kind of lock did.
type result struct {
	rate     float64 // requests a second
	took     []time.Duration
	commands int // of Redis, those inside scripts included
	numbers  map[int]bool
}

func (r *result) quantile(q float64) time.Duration {
	slices.Sort(r.took)
	return r.took[int(q*float64(len(r.took)-1))].Round(time.Millisecond / 10)
}

// verdict says how many numbers differ, and whether these are all.
func (r *result) verdict() string {
	if len(r.numbers) < len(r.took) {
		return fmt.Sprintf("%d: wrong", len(r.numbers))
	}
	return strconv.Itoa(len(r.numbers))
}
