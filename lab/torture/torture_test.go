package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/lab/internal/childproc"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func TestMain(m *testing.M) {
	if childproc.IsChild() {
		os.Exit(childproc.Main(work))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "4")                            // they wait most of the time
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // or every worker takes a second to end
	os.Exit(etcdtest.Main(func() int {
		code := m.Run()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = exitFailed
		}
		return code
	}))
}

// tortured runs the program on a machine that may be very busy. It returns its
// exit status and its output. Tests whose runs must be clean are not parallel,
// because the judge also asks how soon a key was given.
func tortured(t *testing.T, args string) (status int, report string) {
	t.Helper()
	var out, progress bytes.Buffer
	status = command(strings.Fields("-dir "+t.TempDir()+" -slack 20s -gapslack 20s "+args), &out, &progress)
	return status, progress.String() + out.String()
}

func TestGuardKeepsItsPromises(t *testing.T) {
	status, report := tortured(t, "-for 10s -seed 3")
	if status != exitOK {
		t.Errorf("status %d\n%s", status, report)
	}
	for _, want := range []string{"grants ", "C9 hand-offs ", "fault: kill "} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

func TestGuardKeepsThemOnManyServers(t *testing.T) {
	for _, topology := range testsize.Pick(libs.Redises[1:], []libs.Topology{libs.Sentinel}) {
		keeps(t, "-for 5s", topology)
	}
}

func TestGuardKeepsThemInOtherStores(t *testing.T) {
	for _, topology := range testsize.Pick(libs.Stores, []libs.Topology{libs.SQLite}) {
		keeps(t, "-for 8s", topology)
	}
}

// keeps wants a clean run on a topology.
func keeps(t *testing.T, args string, topology libs.Topology) {
	t.Helper()
	t.Run(string(topology), func(t *testing.T) {
		if status, report := tortured(t, args+" -topology "+string(topology)); status != exitOK {
			t.Errorf("status %d\n%s", status, report)
		}
	})
}

// Readers, permits, writers and carts meet on the same keys.
func TestModesKeepTheirPromises(t *testing.T) {
	roles := []string{judge.Reader, judge.Writer, judge.Permit, judge.Cart}
	for _, args := range testsize.Pick([]string{
		"-for 8s -seed 7", "-for 4s -topology sentinel", "-for 4s -topology cluster", "-for 8s -topology etcd",
		"-for 8s -topology postgres",
	}, []string{"-for 5s -seed 7"}) {
		status, report := tortured(t, args+" -roles "+strings.Join(roles, ","))
		if status != exitOK {
			t.Errorf("%s: status %d\n%s", args, status, report)
		}
		for _, role := range roles {
			if !regexp.MustCompile(`turns: ` + role + ` +[1-9]`).MatchString(report) {
				t.Errorf("%s: no turn of a %s\n%s", args, role, report)
			}
		}
	}
}

// Results are kept once, and payments are made once.
func TestResultsKeepTheirPromises(t *testing.T) {
	for _, args := range testsize.Pick([]string{
		"-for 6s -seed 7", "-for 4s -topology sentinel", "-for 4s -topology cluster", "-for 8s -topology etcd",
		"-for 8s -topology postgres",
	}, []string{"-for 5s -seed 7"}) {
		status, report := tortured(t, args+" -roles writer,once,payment -long 20")
		if status != exitOK {
			t.Errorf("%s: status %d\n%s", args, status, report)
		}
		for _, role := range []string{judge.Once, judge.Payment} {
			if !regexp.MustCompile(`turns: ` + role + ` +[1-9][0-9]* calls, [1-9]`).MatchString(report) {
				t.Errorf("%s: no call of role %s\n%s", args, role, report)
			}
		}
	}
}

func TestPeersAreOnlyCounted(t *testing.T) {
	t.Parallel()
	const peers = "redislock,redsync,rueidislock"
	status, report := tortured(t, "-for 4s -seed 2 -libs "+peers)
	if status != exitOK {
		t.Errorf("status %d\n%s", status, report)
	}
	for peer := range strings.SplitSeq(peers, ",") {
		if !strings.Contains(report, "-libs "+peer) {
			t.Errorf("no %s in\n%s", peer, report)
		}
	}
}

// TestEveryMutantIsCaught gives each mutant only the faults that it needs, so
// that the test does not take long. A run ends with its first violation. Where
// a key may go from under its owner, that is another holder (C3), or a look at
// the server that finds no key (C5).
func TestEveryMutantIsCaught(t *testing.T) {
	t.Parallel()
	caught := map[string]struct{ checks, args string }{
		"noowner":    {"C3 C5", ""},
		"norenew":    {"C3 C5", ""},
		"recreate":   {"C3 C5", "-faults flush -long 50"},
		"notjoined":  {"C3 C5", ""}, // it may cut the next holder's lease short, too
		"sametoken":  {"C2", ""},
		"localtoken": {"C2", ""},
		"lostwakeup": {"C7", "-for 5s -faults none"},
		"longlife":   {"C11", "-faults kill -long 50 -gapslack 1s"},
		"nottl":      {"C8", ""},
		"nolock":     {"C3 C5", ""},
		"receipt":    {"C5", ""},
		"untold":     {"C5", "-faults both,hole -long 50"},
		"afterloss":  {"C9 C3 C5 C2", "-faults both,hole -long 50"},
		"overstay":   {"C6", "-slack 1s"},
		"leak":       {"C8", "-for 3s -faults none"},

		"freecrowd":   {"C3 C5", "-roles reader,writer"},
		"nostay":      {"C3 C5", "-roles reader,permit,writer -long 50"},
		"permittoken": {"C2", "-roles permit"},
		"onemore":     {"C3", "-roles permit"},
		"halfcart":    {"C3 C5 C9", "-roles cart"},

		"norecall": {"C12", "-roles once,writer -faults none"},
		"norecord": {"C12", "-roles once,writer -faults none"},
		"nomark":   {"C12", "-roles payment,payment,writer -faults kill -long 300"},
	}
	for _, name := range testsize.Pick(mutantNames(), []string{
		"noowner", "norenew", "localtoken", "nottl", "onemore", "leak", "nomark",
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := caught[name]
			began := time.Now()
			status, report := tortured(t, "-for 60s -mutant "+name+" "+m.args)
			t.Logf("after %v", time.Since(began).Round(time.Second))
			found := slices.ContainsFunc(strings.Fields(m.checks), func(c string) bool {
				return strings.Contains(report, "VIOLATES "+c+":")
			})
			if status != exitFailed && m.checks != "C7" || !found {
				t.Errorf("status %d, want a violation of %s\n%s", status, m.checks, report)
			}
		})
	}
}

// The place of a worker that was killed has it until the next one runs, which
// takes long on a busy machine.
func TestOnlyAWorkerThatDiesByItselfEndsTheRun(t *testing.T) {
	gone := make(chan struct{})
	close(gone)
	for _, ending := range []bool{false, true} {
		l := &life{worker: &worker{Gone: gone}, ending: ending}
		c := &crew{cfg: config{procs: 1}, now: []*life{l}}
		if f := c.alive(); (f == "") != ending {
			t.Errorf("ended by the crew %v: %q", ending, f)
		}
	}
}

func TestASeedDrawsTheSameFaultsAgain(t *testing.T) {
	t.Parallel()
	schedule := func(seed string) []strike {
		cfg, err := parseFlags([]string{"-seed", seed, "-for", "60s"}, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		return newSchedule(cfg)
	}
	if a, b := schedule("9"), schedule("9"); !slices.Equal(a, b) || len(a) < 30 {
		t.Errorf("%d faults, %v\nand then\n%v", len(a), a, b)
	}
	if slices.Equal(schedule("9"), schedule("10")) {
		t.Error("another seed draws the same")
	}
}

func TestEveryFaultCanHappenSomewhere(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		found := slices.ContainsFunc(libs.Topologies,
			func(top libs.Topology) bool { return slices.Contains(kindsFor(top), name) })
		if !found || k.weight < 1 || k.do == nil || k.length == nil {
			t.Errorf("%s: %+v", name, k)
		}
	}
}

func TestAStoreThatNobodyKnowsIsNoRun(t *testing.T) {
	t.Parallel()
	status, report := tortured(t, "-for 1s -topology nosuch://store")
	if status != exitFailed || !strings.Contains(report, "scheme") {
		t.Errorf("status %d\n%s", status, report)
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"-for 1ms", "-topology no", "-libs no", "-mutant no", "-faults no", "-procs 1", "-callers 0", "-keys 0", "x",
		"-mutant leak -libs redislock", "-roles no", "-roles reader -libs redislock", "-roles cart -topology redlock",
		"-mutant leak -topology cluster", "-faults migrate",
		"-libs redsync -topology etcd -faults flush", "-topology sqlite -faults cut",
	} {
		if _, err := parseFlags(strings.Fields(args), t.Output()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
