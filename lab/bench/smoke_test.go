package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/lab/bench/internal/host"
	"github.com/go-lockguard/guard/lab/internal/childproc"
)

// The faults that a test can cause in the children.
const (
	plantEnv = "GUARD_BENCH_PLANT" // replaces guard by something that does not exclude
	dieEnv   = "GUARD_BENCH_DIE"   // makes them end with an error after their result
)

func TestMain(m *testing.M) {
	if !childproc.IsChild() {
		os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // or every child takes a second to end
		goleak.VerifyTestMain(m)
	}
	if os.Getenv(plantEnv) != "" {
		libraries[0].open = func(setup) (locker, error) { return unlocked{}, nil }
	}
	os.Exit(childproc.Main(func(parent *childproc.Parent, j job) error {
		err := childMain(parent, j)
		if os.Getenv(dieEnv) != "" {
			err = errors.New("last words")
		}
		return err
	}))
}

// smokePlan is too short to measure anything.
var smokePlan = plan{
	Closed: 200 * time.Millisecond, Open: 200 * time.Millisecond, TakeOver: 300 * time.Millisecond, Crowd: time.Second,
	Leases: 500 * time.Millisecond, CrowdSize: 100, LeaseCount: 100, TopRung: 1, Overload: 1,
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	srv, err := host.StartServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	return &bench{srv: srv, dir: dir, plan: smokePlan, round: 1}
}

// smoked are the workloads, with one of each kind of size.
func smoked() []workload {
	sizes := []string{
		"scale-keys-1000", "scale-cluster-3", "scale-ttl-1s", "modes-readers-95", "carts-9-doall", "trips-3",
	}
	sizes = append(sizes, testsize.Pick([]string{
		"scale-processes-2", "scale-instances-10", "modes-permits-4", "carts-9-apart", "waits-299", "cuts", "outage",
		"scale-cliff-5000-busy-6",
	}, nil)...)
	return slices.DeleteFunc(slices.Clone(workloads), func(w workload) bool {
		return w.own && !slices.Contains(sizes, w.name)
	})
}

// measured measures until there is something to report of guard. On a busy
// machine no section may end in a short time, so it is twice as long each time.
func (b *bench) measured(w *workload, c call) (runs []run, err error) {
	b.plan = smokePlan
	for ; ; b.plan.Closed *= 2 {
		runs, err = w.measure(b, c)
		if err != nil || c.library != ours || len(lacking(w.name, runs)) == 0 || b.plan.Closed > time.Minute {
			return runs, err
		}
	}
}

// lacking returns the columns of a workload that guard's runs lack.
func lacking(workload string, runs []run) []string {
	d := &data{runs, 1}
	return slices.DeleteFunc(slices.Clone(columns(workload)), func(c string) bool {
		_, ok := d.get(workload, ours, c, 1)
		return ok || workload == "open-4x" && c == "rate"
	})
}

func TestEveryWorkloadRunsAndExcludes(t *testing.T) {
	b := newBench(t)
	res := &results{Rounds: 1}
	for _, w := range smoked() {
		libs := []string{ours}
		switch w.name {
		case "hot-4x25":
			// all of them
			libs = librariesOf(w, slices.DeleteFunc(allNames(), func(l string) bool { return l == before }), 1)
		case "open-4x":
			libs = []string{ours, serial}
		case "leases":
			libs = []string{ours, "redislock", "redsync", "rueidislock"} // each renews in its own way
		}
		for _, lib := range libs {
			runs, err := b.measured(&w, call{ctx: t.Context(), workload: w.name, library: lib})
			if err != nil {
				t.Errorf("%s, %s: %v", w.name, lib, err)
				continue
			}
			res.Runs = append(res.Runs, runs...)
		}
	}
	d := &data{res.Runs, 1}
	for _, w := range smoked() {
		if cs := lacking(w.name, d.runs); len(cs) > 0 {
			t.Errorf("%s: no %v", w.name, cs)
		}
	}
	for _, c := range rungColumns {
		if vs := d.rung("open-4x", ours, firstRung, c); len(vs) != 1 || math.IsNaN(vs[0]) {
			t.Errorf("open-4x by rate: %s is %v", c, vs)
		}
	}
	if v, _ := d.get("hot-4x25", serial, "cmds/call", 1); v != 0 {
		t.Errorf("serial sent %v lock commands per call", v)
	}
	if v, _ := d.get("spread-1", ours, "cmds/call", 1); v < 2 || v > 10 {
		t.Errorf("guard sent %v lock commands per call for a key of its own", v)
	}
	checkReport(t, res)
	checkPlots(t, d)
}

// checkReport checks that everything that was measured is in the report.
func checkReport(t *testing.T, res *results) {
	t.Helper()
	res.Bars = judge(&data{res.Runs, 1})
	var out bytes.Buffer
	report(&out, res)
	for _, w := range smoked() {
		if !strings.Contains(out.String(), w.title) {
			t.Errorf("the report says nothing of %s", w.name)
		}
	}
	for _, l := range libraries {
		if !strings.Contains(out.String(), l.setting) {
			t.Errorf("the report does not say how %s is set up", l.name)
		}
	}
	if n := strings.Count(out.String(), "met "); n < len(res.Bars) {
		t.Errorf("%d verdicts in the report, want %d", n, len(res.Bars))
	}
	if _, err := json.Marshal(res); err != nil {
		t.Error(err)
	}
}

func checkPlots(t *testing.T, d *data) {
	t.Helper()
	files, err := drawAll(d, filepath.Join(t.TempDir(), "plots"))
	if err != nil || len(files) != 4 {
		t.Fatalf("plots: %v, %v", files, err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err != nil || !bytes.Contains(text, []byte("guard")) {
			t.Errorf("%s: %v, or guard is not in it", f, err)
		}
	}
}

// Spread keys and leases are not here. They have no competition, so an unlocked
// section could not hit another.
func TestLibraryThatDoesNotExcludeIsCaught(t *testing.T) {
	t.Setenv(plantEnv, "1")
	b := newBench(t)
	for _, w := range smoked() {
		switch w.name {
		case "hot-1x100", "hot-4x25", "hot-8x1", "overload", "takeover", "waiters", "cut":
			caught(t, w.name, func() error {
				_, err := w.measure(b, call{ctx: t.Context(), workload: w.name, library: ours})
				return err
			})
		}
	}
	b.plan.Open = time.Second
	caught(t, "open-4x", func() error {
		_, err := b.rung(call{ctx: t.Context(), workload: "open-4x", library: ours}, 5000)
		return err
	})
}

// caught measures until there is a violation, ten times at most, because a busy
// machine may let no two sections run in the time of one.
func caught(t *testing.T, what string, measure func() error) {
	t.Helper()
	var err error
	for range 10 {
		if err = measure(); errors.Is(err, errViolation) {
			return
		}
	}
	t.Errorf("%s: %v, want a violation", what, err)
}

func TestLostUpdateWithoutAnOverlapIsCaught(t *testing.T) {
	b := newBench(t)
	a, unmap, err := host.Share[arena](filepath.Join(b.dir, "arena"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unmap() })
	b.srv.Client.Set(t.Context(), stock, 9, 0)
	if err := b.excluded(t.Context(), a, 9); err != nil {
		t.Error("nothing is wrong:", err)
	}
	if err := b.excluded(t.Context(), a, 10); !errors.Is(err, errViolation) {
		t.Errorf("one update of ten is lost: %v", err)
	}
}

func TestViolationIsTheExitStatusAndNothingElseIs(t *testing.T) {
	args := []string{"-quick", "-rounds", "1", "-only", "hot-4x25", "-libs", "guard,serial"}
	var out bytes.Buffer
	if code := command(args, &out, t.Output()); code != exitOK {
		t.Errorf("exit status %d, want 0 whatever bars are met\n%s", code, &out)
	}
	t.Setenv(plantEnv, "1")
	caught(t, "the command", func() error {
		out.Reset()
		if code := command(args, &out, t.Output()); code != exitFailed || !strings.Contains(out.String(), "VIOLATION") {
			return fmt.Errorf("exit status %d, want %d\n%s", code, exitFailed, &out)
		}
		return errViolation
	})
}

func TestChildThatFailsIsReportedWithItsReason(t *testing.T) {
	b := newBench(t)
	j := job{Kind: "closed", Library: "no such", Callers: 1, Duration: time.Second}
	if _, _, err := b.measure(t.Context(), 2, j, nil); err == nil ||
		!strings.Contains(err.Error(), `no library "no such"`) {
		t.Error(err)
	}
	t.Setenv(dieEnv, "1")
	j.Library = serial
	if _, _, err := b.measure(t.Context(), 2, j, nil); err == nil || !strings.Contains(err.Error(), "last words") {
		t.Errorf("with a result, but a bad end: %v", err)
	}
}
