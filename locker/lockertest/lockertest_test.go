package lockertest_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suite is worth something only if a locker with a fault fails it. A sound
// locker passes it in the tests of memlocker.
func TestPlantedFaultIsCaught(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			caught := failing(t, f)
			for _, want := range f.caughtBy {
				if !slices.Contains(caught, want) {
					t.Errorf("passes %q; caught by %q", want, caught)
				}
			}
		})
	}
}

// A check that no fault can fail checks nothing.
func TestEveryCheckCatchesAFault(t *testing.T) {
	var named []string
	for _, f := range faults {
		named = append(named, f.caughtBy...)
	}
	named = append(named, racingCheck)
	for _, f := range outageFaults {
		named = append(named, f.caughtBy...)
	}
	var all []string
	for _, c := range lockertest.Checks() {
		all = append(all, c.Name)
	}
	for _, c := range lockertest.FaultyChecks() {
		all = append(all, c.Name)
	}
	for _, name := range all {
		if !slices.Contains(named, name) {
			t.Errorf("no fault is planted for %q", name)
		}
	}
}

// failing returns the names of the checks that a locker with the fault does not
// pass. The short form tries only those that must see it.
func failing(t *testing.T, f fault) (names []string) {
	for _, c := range lockertest.Checks() {
		if !f.tries(c.Name) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			mem, all := memlocker.New(), new(ledger)
			err := c.Test(f.plant(memory{mem, all}), f.plant(memory{mem.Peer(), all}))
			if err != nil {
				t.Logf("%s: %v", c.Name, err)
				names = append(names, c.Name)
			}
		})
	}
	return names
}
