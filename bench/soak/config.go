package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// config is what the flags say.
type config struct {
	turns    int64
	procs    int
	callers  int
	keys     int
	ttl      time.Duration
	seed     uint64
	flush    bool
	faults   []string
	mutant   string
	slack    time.Duration
	gapSlack time.Duration
	most     time.Duration
}

func parseFlags(args []string, out io.Writer) (c config, err error) {
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Int64Var(&c.turns, "turns", 1_000_000, "end after so many sections")
	fs.IntVar(&c.procs, "procs", 6, "worker processes")
	fs.IntVar(&c.callers, "callers", 10, "callers in each, in closed loops")
	fs.IntVar(&c.keys, "keys", 6, "keys that all of them want")
	fs.DurationVar(&c.ttl, "ttl", 2*time.Second, "TTL of the leases")
	fs.Uint64Var(&c.seed, "seed", 1, "of all that is random; faults come in the same order again, the processes' own timing does not")
	fs.BoolVar(&c.flush, "flush", false, "also FLUSHALL, as a failover that lost everything: then only fencing tokens and waits are checked")
	faults := fs.String("faults", "", "kinds of faults, as a `list`, \"none\" for none; default all of "+strings.Join(faultNames(), ","))
	fs.StringVar(&c.mutant, "mutant", "none", "a lock with a planted fault, to see it found: none, "+strings.Join(mutantNames(), ", "))
	fs.DurationVar(&c.slack, "slack", 2*time.Second, "what a wait may take beyond its bound before it is a violation: the machine may be busy")
	fs.DurationVar(&c.gapSlack, "gapslack", time.Second, "what a key may be free beyond the TTL, or the offer, after a kill while somebody waits")
	fs.DurationVar(&c.most, "for", 0, "end after this time at the latest; 0: no limit")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	c.faults = faultNames()
	if *faults != "" {
		c.faults = slices.DeleteFunc(strings.Split(*faults, ","), func(f string) bool { return f == "none" })
	}
	return c, c.check(fs.NArg())
}

func (c config) check(rest int) error {
	for _, f := range c.faults {
		if !slices.Contains(faultNames(), f) {
			return fmt.Errorf("no fault is called %q", f)
		}
	}
	switch {
	case len(c.faults) == 1 && c.faults[0] == "flush" && !c.flush:
		return errors.New("the fault flush needs -flush")
	case rest > 0:
		return fmt.Errorf("%d arguments that are no flags", rest)
	case c.turns < 1:
		return fmt.Errorf("-turns is %d, want at least 1", c.turns)
	case c.procs < 2 || c.procs > maxProcs:
		return fmt.Errorf("-procs is %d, want 2 to %d", c.procs, maxProcs)
	case c.callers < 1 || c.callers > maxCallers:
		return fmt.Errorf("-callers is %d, want 1 to %d", c.callers, maxCallers)
	case c.keys < 1 || c.keys > maxKeys:
		return fmt.Errorf("-keys is %d, want 1 to %d", c.keys, maxKeys)
	case c.ttl < 100*time.Millisecond:
		return fmt.Errorf("-ttl is %v, want at least 100ms", c.ttl)
	case c.mutant != "none" && mutants[c.mutant] == nil:
		return fmt.Errorf("no mutant is called %q", c.mutant)
	}
	return nil
}

// offer is what a process that died while it waited costs the others.
func (c config) offer() time.Duration { return min(c.ttl, time.Second) }

// tryLimit is what a wait may take if MaxWait is shorter.
func (c config) tryLimit() time.Duration { return min(c.ttl/4, 500*time.Millisecond) }

// reach is how long after a fault what happens may still be its doing.
func (c config) reach() time.Duration { return c.ttl + c.offer() + 500*time.Millisecond }

// longest is how long after its begin a section may still be open: it lasts up to 2.5 TTLs, and is stopped meanwhile for as
// much again.
func (c config) longest() time.Duration { return 8*c.ttl + 4*time.Second }
