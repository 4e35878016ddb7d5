// Command storm runs processes that want the same keys of etcd, while it kills,
// stops and cuts off members and processes. It reports each section that ran
// beside another on its key, each fencing token that fell, and keys that stay.
//
//	go -C locker/etcdlocker/etcdtest run ./storm -for 60s
//	go -C locker/etcdlocker/etcdtest run ./storm -for 60s -modes
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func main() {
	if isWorker() {
		work()
		return
	}
	s := settings{}
	flag.DurationVar(&s.length, "for", time.Minute, "how long")
	flag.IntVar(&s.processes, "processes", 3, "processes that want keys")
	flag.IntVar(&s.callers, "callers", 4, "callers in each")
	flag.DurationVar(&s.ttl, "ttl", 3*time.Second, "TTL of the leases")
	flag.BoolVar(&s.modes, "modes", false, "most calls for two of the three keys share them, or take a permit")
	flag.Parse()
	os.Exit(etcdtest.Main(func() int {
		r, err := run(context.Background(), s)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(r)
		if r.failed() {
			return 1
		}
		return 0
	}))
}

type settings struct {
	length             time.Duration
	processes, callers int
	ttl                time.Duration
	modes              bool
}

// keys is how many keys there are.
const keys = 3

// report is the result of a storm.
type report struct {
	sections, fenced int            // fenced: sections of a process that was stopped, and came too late
	faults           map[string]int // by name
	violations       []string
	left             []string      // keys that stay in etcd
	gap              time.Duration // the longest without a section on a key
}

func (r report) failed() bool { return len(r.violations) > 0 || len(r.left) > 0 || r.sections == 0 }

func (r report) String() string {
	return fmt.Sprintf("%d sections, %d fenced off, longest gap %v; faults %v; %d violations %v; %d keys left %v",
		r.sections, r.fenced, r.gap.Round(time.Millisecond), r.faults,
		len(r.violations), r.violations, len(r.left), r.left)
}
