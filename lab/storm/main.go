//go:build unix

// Command storm runs processes that want the same keys of a store, while faults
// happen to them, to the store's servers and to the network between. It reports
// each section that ran beside another on its key, each fencing token that
// fell, keys that stay, and payments with two results. A process is this
// program once more.
//
//	go run ./lab/storm -store postgres -for 60s
//	go run ./lab/storm -store etcd -modes              calls that need not be alone
//	go run ./lab/storm -store mysql -once              calls that want results
//	go run ./lab/storm -store postgres -pooler poll    through pgbouncer: listen, or poll
//	go run ./lab/storm -store redis://localhost:6379   a store that runs: faults of processes alone
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

// store is what -store names.
type store struct {
	// start starts servers, and says in p how the storm gets to them. What it
	// has started when it fails is ended too.
	start func(ctx context.Context, p *Place) error

	// open opens the store in a process, by the addresses of its Place. end is
	// called when its guard is closed.
	open func(addresses []string) (l locker.Locker, end func(), err error)

	alone bool // it has exclusive leases only, and keeps no results
}

var stores = map[string]store{
	"etcd":      {start: startEtcd, open: openEtcd},
	"mysql":     {start: startMySQL, open: openDSN},
	"postgres":  {start: startPostgres, open: openPostgres},
	"sqlite":    {start: startSQLite, open: openDSN},
	"zookeeper": {start: startZooKeeper, open: openZooKeeper, alone: true},
}

// named returns the store of a name, or of the address of one that runs.
func named(name string) (s store, err error) {
	if strings.Contains(name, ":") {
		return store{start: func(ctx context.Context, p *Place) error { return p.at(ctx, name) }, open: openDSN}, nil
	}
	s, ok := stores[name]
	if !ok {
		return s, fmt.Errorf("-store: want an address, or one of %s",
			strings.Join(slices.Sorted(maps.Keys(stores)), ", "))
	}
	return s, nil
}

func main() {
	if process() {
		return
	}
	var s Settings
	s.flags()
	flag.Parse()
	os.Exit(etcdtest.Main(func() int {
		r, err := run(context.Background(), s)
		fmt.Println(r)
		if err == nil && r.Failed() {
			err = errors.New("a promise was broken, or nothing was done")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}))
}

// run starts the store and lets the storm rage.
func run(ctx context.Context, s Settings) (Report, error) {
	chosen, err := named(s.Store)
	if err != nil {
		return Report{}, err
	}
	if chosen.alone && (s.Modes || s.Once) {
		return Report{}, fmt.Errorf("%s has exclusive leases only", s.Store)
	}
	p := Place{pooler: s.Pooler}
	defer p.end()
	if err := chosen.start(ctx, &p); err != nil {
		return Report{}, err
	}
	return Run(ctx, s, p, os.Stderr)
}

// flags defines a flag for each setting.
func (s *Settings) flags() {
	flag.StringVar(&s.Store, "store", "postgres", "the store, or the address of one that runs")
	flag.DurationVar(&s.Length, "for", time.Minute, "how long")
	flag.IntVar(&s.Processes, "processes", 3, "processes that want keys")
	flag.IntVar(&s.Callers, "callers", 4, "callers in each")
	flag.DurationVar(&s.TTL, "ttl", 3*time.Second, "TTL of the leases")
	flag.BoolVar(&s.Modes, "modes", false, "most calls for two of the three keys share them, or take a permit")
	flag.BoolVar(&s.Once, "once", false, "calls want the result of a key, half of them at most once")
	flag.StringVar(&s.Pooler, "pooler", "", "listen or poll: go to PostgreSQL through pgbouncer in transaction mode")
}

// openDSN opens the store of a process by an address.
func openDSN(addresses []string) (locker.Locker, func(), error) {
	l, err := locker.FromDSN(addresses[0])
	return l, func() {}, err
}
