package lockertest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// racingCheck finds its fault by means of the race detector, which fails the
// running test. So the fault is planted in a process of its own.
const racingCheck = "a claim is not written to while the guard reads it"

type writesClaim struct{ memory }

func (l writesClaim) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	for _, c := range cs {
		c.Holder.Instance = "mine"
	}
	l.memory.Renew(ctx, cs, answered)
}

const planted = "LOCKERTEST_PLANTED_RACE"

func TestPlantedRaceIsCaught(t *testing.T) {
	if os.Getenv(planted) != "" {
		plantRace(t)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestPlantedRaceIsCaught$", "-test.v")
	cmd.Env = append(os.Environ(), planted+"=1")
	out, err := cmd.CombinedOutput()
	if raceBuild && (err == nil || !strings.Contains(string(out), "DATA RACE")) {
		t.Errorf("a locker that writes to a claim in Renew passes: %v\n%s", err, out)
	}
}

func plantRace(t *testing.T) {
	t.Helper()
	for _, c := range lockertest.Checks() {
		if c.Name != racingCheck {
			continue
		}
		mem := memlocker.New()
		if err := c.Test(writesClaim{memory{mem, nil}}, mem.Peer()); err != nil {
			t.Error(err)
		}
	}
}

// The checks that need a capability are skipped by name for a locker without
// it.
func TestAMissingCapabilityIsSkippedByName(t *testing.T) {
	skipped := map[string]int{}
	for _, c := range lockertest.Checks() {
		synctest.Test(t, func(t *testing.T) {
			mem := memlocker.New()
			err := c.Test(testguard.Plain{Locker: mem}, testguard.Plain{Locker: mem.Peer()})
			switch _, lacks, _ := strings.Cut(fmt.Sprint(err), "Capabilities have no "); {
			case errors.Is(err, lockertest.ErrSkipped) && lacks != "":
				name, _, _ := strings.Cut(lacks, " ")
				skipped[name]++
			case err != nil:
				t.Errorf("%s: %v", c.Name, err)
			}
		})
	}
	want := map[string]int{"Inspects": 6, "Shares": 25, "Several": 5, "Records": 23, "Lingers": 5}
	if !maps.Equal(skipped, want) {
		t.Errorf("checks skipped for want of a capability: %v, want %v", skipped, want)
	}
}
