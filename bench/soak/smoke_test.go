package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	text := os.Getenv(jobEnv)
	if text == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // or every worker takes a second to end
		goleak.VerifyTestMain(m)
	}
	if err := workerMain(text, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	os.Exit(exitOK)
}

// soaked runs the program on a machine that may be very busy, and returns its exit status and what it printed.
func soaked(t *testing.T, args string) (status int, report string) {
	t.Helper()
	var out, progress bytes.Buffer
	args += " -procs 3 -callers 4 -keys 2 -ttl 300ms -slack 20s -gapslack 20s"
	status = command(strings.Fields(args), &out, &progress)
	return status, out.String() + progress.String()
}

func TestAShortRunBreaksNothing(t *testing.T) {
	status, report := soaked(t, "-turns 1000000 -for 5s -faults kill,stop,cut,hole")
	if status != exitOK {
		t.Errorf("status %d\n%s", status, report)
	}
	for _, want := range []string{"turns ", "violations: overlap ", "\nkill ", "beyond the bound: max"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

func TestALockThatLetsEverybodyInIsFound(t *testing.T) {
	status, report := soaked(t, "-mutant nolock -turns 500 -for 20s -faults none")
	if status != exitFailed || !strings.Contains(report, "VIOLATION overlap") || !strings.Contains(report, "VIOLATION lost update") {
		t.Errorf("status %d\n%s", status, report)
	}
}

func TestAFlushIsSurvivedByTokens(t *testing.T) {
	if status, report := soaked(t, "-turns 1000000 -for 3s -flush -faults flush"); status != exitOK {
		t.Errorf("status %d\n%s", status, report)
	}
}

func TestASeedDrawsTheSameFaultsAgain(t *testing.T) {
	cfg, err := parseFlags([]string{"-seed", "9"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	series := func() (s []strike) {
		rnd := rand.New(rand.NewPCG(cfg.seed, 0))
		for range 50 {
			s = append(s, draw(rnd, cfg))
		}
		return s
	}
	if a, b := series(), series(); !slices.Equal(a, b) {
		t.Errorf("%v\nand then\n%v", a, b)
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range []string{"-turns 0", "-procs 1", "-procs 99", "-callers 0", "-keys 0", "-ttl 1ms", "-mutant no", "-faults no", "x", "-faults flush"} {
		if _, err := parseFlags(strings.Fields(args), t.Output()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
