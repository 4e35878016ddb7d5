package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// config holds the values of the flags.
type config struct {
	length   time.Duration
	topology libs.Topology
	seed     uint64
	libs     []*libs.Library
	mutant   string
	faults   []string // kinds
	procs    int
	callers  int
	keys     int
	roles    []string // none: writers
	replicas int      // of guard's acquires
	long     int
	slack    time.Duration
	gapSlack time.Duration
	dir      string
	schedule bool
}

func parseFlags(args []string, out io.Writer) (c config, err error) {
	fs := flag.NewFlagSet("torture", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.DurationVar(&c.length, "for", time.Minute, "how long each library is tortured")
	topology := fs.String("topology", string(libs.Single), "the servers: "+topologies()+"; or the "+
		"address of a store that runs, for faults of processes alone")
	fs.Uint64Var(&c.seed, "seed", 1, "of all that is random; the faults come at the same times again, the processes' "+
		"own timing does not")
	names := fs.String("libs", "guard", "libraries, as a `list`: guard,redislock,redsync,rueidislock")
	fs.StringVar(&c.mutant, "mutant", "",
		"a guard with a planted fault, to see it found: "+strings.Join(mutantNames(), ", "))
	faults := fs.String("faults", "", "kinds of faults, as a `list`, \"none\" for none; default all that "+
		"the topology has")
	fs.IntVar(&c.procs, "procs", 4, "worker processes")
	fs.IntVar(&c.callers, "callers", 8, "callers in each, in closed loops")
	fs.IntVar(&c.keys, "keys", 4, "keys that all of them want")
	cast := fs.String("roles", judge.Writer, "what calls do, as a `list`: "+strings.Join(judge.Roles, ", ")+
		"; others than writer are of guard alone")
	fs.IntVar(&c.replicas, "replicas", 0, "how many replicas have each acquire of guard, by WithReplicas")
	fs.IntVar(&c.long, "long", 1, "of a thousand sections, how many are about as long as the TTL or longer")
	fs.DurationVar(&c.slack, "slack", 100*time.Millisecond,
		"what a wait may take beyond its bound, stalls of its process not counted; promised are 50ms")
	fs.DurationVar(&c.gapSlack, "gapslack", time.Second,
		"what a key may be free beyond the TTL, or the offer, after a kill while somebody waits")
	fs.StringVar(&c.dir, "dir", "", "where histories go and stay, as a `directory`; default one that is removed if "+
		"nothing was found")
	fs.BoolVar(&c.schedule, "schedule", false, "print the faults of this seed and do nothing")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	c.topology = libs.Topology(*topology)
	if c.libs, err = libs.Named(*names); err != nil {
		return c, err
	}
	if c.roles, err = judge.ParseRoles(*cast); err != nil {
		return c, err
	}
	if err := c.check(fs.NArg()); err != nil {
		return c, err
	}
	c.faults = kindsFor(c.topology)
	if *faults != "" {
		c.faults = slices.DeleteFunc(strings.Split(*faults, ","), func(f string) bool { return f == "none" })
	}
	for _, f := range c.faults {
		if !slices.Contains(kindsFor(c.topology), f) {
			return c, fmt.Errorf("-faults: there is no %q with %s; there are %s", f, c.topology,
				strings.Join(kindsFor(c.topology), ", "))
		}
	}
	return c, nil
}

func (c config) check(rest int) error {
	switch {
	case rest > 0:
		return fmt.Errorf("%d arguments that are no flags", rest)
	case !slices.Contains(libs.Topologies, c.topology) && !c.topology.Runs():
		return fmt.Errorf("-topology: there is no %q", c.topology)
	case c.length < time.Second:
		return fmt.Errorf("-for is %v, want at least 1s", c.length)
	case c.procs < 2 || c.callers < 1 || c.keys < 1:
		return errors.New("want at least 2 -procs, 1 of -callers, and 1 of -keys")
	case !c.onlyWriters() && (len(c.libs) != 1 || c.libs[0] != libs.Guard || c.topology == libs.Redlock):
		return errors.New("-roles: others than writer are of guard alone, and not with redlock")
	case c.mutant == "":
		return nil
	case !slices.Contains(mutantNames(), c.mutant):
		return fmt.Errorf("-mutant: there is no %q; there are %s", c.mutant, strings.Join(mutantNames(), ", "))
	case c.topology != libs.Single || len(c.libs) != 1 || c.libs[0] != libs.Guard:
		return errors.New("-mutant: mutants are of guard, on a single server")
	}
	return nil
}

func (c config) onlyWriters() bool {
	return !slices.ContainsFunc(c.roles, func(r string) bool { return r != judge.Writer })
}

// replay returns the command that runs a library with the same faults again.
func (c config) replay(lib *libs.Library) string {
	s := fmt.Sprintf("go run ./lab/torture -for %v -topology %s -seed %d -libs %s", c.length,
		c.topology, c.seed, lib.Name)
	if c.mutant != "" {
		s += " -mutant " + c.mutant
	}
	if len(c.faults) != len(kindsFor(c.topology)) {
		s += " -faults " + strings.Join(append(c.faults, "none")[:max(len(c.faults), 1)], ",")
	}
	if !c.onlyWriters() {
		s += " -roles " + strings.Join(c.roles, ",")
	}
	if c.replicas > 0 {
		s += fmt.Sprintf(" -replicas %d", c.replicas)
	}
	return s + fmt.Sprintf(" -procs %d -callers %d -keys %d -long %d", c.procs, c.callers, c.keys, c.long)
}

// ttl returns the TTL of a worker's leases. It differs between workers. Stores
// that write to disks or ask a quorum have twice the time.
func (c config) ttl(proc int) time.Duration {
	ttl := []time.Duration{800 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, longest}[proc%4]
	if !slices.Contains(libs.Redises, c.topology) {
		ttl *= 2
	}
	return ttl
}

const longest = 1500 * time.Millisecond

// mostTTL is the longest TTL.
func (c config) mostTTL() time.Duration { return c.ttl(3) }

// calmEnd is the time without faults at the end of a run.
func (c config) calmEnd() time.Duration {
	return min(max(c.length/4, 3*time.Second), 15*time.Second, c.length)
}

func mutantNames() []string { return slices.Sorted(maps.Keys(mutants)) }

// title is the first line of the report.
func (c config) title() string {
	return fmt.Sprintf("%s, %v each, seed %d, %d processes x %d callers on %d keys, TTLs of %v to %v",
		c.topology, c.length, c.seed, c.procs, c.callers, c.keys, c.ttl(1), c.mostTTL())
}

func topologies() string {
	var names []string
	for _, t := range libs.Topologies {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}
