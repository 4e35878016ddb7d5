// Command stores compares guard on a store with what services use there
// without it, in alternating short rounds on one server that writes to its
// disk. Each locker and each client stands for a process, all in one.
//
//	go run ./lab/bench/stores -store postgres
//	go run ./lab/bench/stores -store mysql -leases 2000    renewals
//	go run ./lab/bench/stores -store redis://localhost:6379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
	_ "github.com/go-lockguard/guard/locker/redislocker" // knows addresses
)

// place is a store that serves.
type place struct {
	open  opener
	rival *rival   // nil if services use nothing that compares
	ends  []func() // of what was started
}

// opener opens the store for a process of so many callers. end is called after
// its guard is closed.
type opener func(callers int) (l locker.Locker, end func(), err error)

func (p *place) ending(f func()) { p.ends = append(p.ends, f) }

func (p *place) end() {
	for _, f := range slices.Backward(p.ends) {
		f()
	}
}

// stores start what -store names.
var stores = map[string]func(ctx context.Context, p *place) error{
	"etcd": startEtcd, "mysql": startMySQL, "nats": startNATS, "postgres": startPostgres, "sqlite": startSQLite,
	"zookeeper": startZooKeeper,
}

// options are the values of the flags.
type options struct {
	store  string
	length time.Duration
	rounds int
	leases int
}

func main() {
	var o options
	flag.StringVar(&o.store, "store", "postgres", "the store, or the address of one that runs")
	flag.DurationVar(&o.length, "round", 2*time.Second, "length of a round")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each")
	flag.IntVar(&o.leases, "leases", 0, "instead hold so many leases of 10 s for half a minute")
	flag.Parse()
	os.Exit(etcdtest.Main(func() int {
		if err := run(context.Background(), o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}))
}

func run(ctx context.Context, o options) error {
	start, ok := stores[o.store]
	if strings.Contains(o.store, ":") {
		start, ok = func(_ context.Context, p *place) error { return p.at(o.store) }, true
	}
	if !ok {
		return fmt.Errorf("-store: want an address, or one of %s", strings.Join(slices.Sorted(maps.Keys(stores)), ", "))
	}
	p := &place{}
	defer p.end()
	if err := start(ctx, p); err != nil {
		return err
	}
	if o.leases > 0 {
		return hold(ctx, p.open, o.leases)
	}
	rivals := []rival{withGuard(p.open)}
	if p.rival != nil {
		rivals = append(rivals, *p.rival)
	}
	for _, c := range contests {
		if err := c.print(o.length, o.rounds, rivals...); err != nil {
			return err
		}
	}
	return nil
}

// at is the place of a store that runs.
func (p *place) at(dsn string) error {
	p.open = func(int) (locker.Locker, func(), error) {
		l, err := locker.FromDSN(dsn)
		return l, func() {}, err
	}
	l, _, err := p.open(1)
	if m, ok := l.(interface {
		Migrate(ctx context.Context) error
	}); ok {
		err = errors.Join(err, m.Migrate(context.Background()))
	}
	return err
}
