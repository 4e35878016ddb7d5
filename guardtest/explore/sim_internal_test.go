package explore

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The simulation: redislocker on one Redis in memory, with each request, each
// message and each dial a step of a run. lab/simulation.md tells how to use it.

type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(mute{}) } // it tells of each lost connection

// TestSim tries every other single fault in each scenario, and fewer in the
// short form and under the race detector. SIM_LEVEL=1 tries them all.
// SIM_LEVEL=2 goes on with pairs, in an order that GUARD_SEED chooses, for
// SIM_TIME in each scenario.
func TestSim(t *testing.T) {
	for _, c := range sims() {
		if c.fits() {
			t.Run(c.name, func(t *testing.T) { c.search(t, Depth(2, 40)) })
		}
	}
}

// TestSimRows does the same on each kind of rows. Each kind tries other faults,
// one of some, and all if there is SIM_LEVEL. Runs on a kind that polls have
// many steps.
func TestSimRows(t *testing.T) {
	for i := range rowKinds {
		k := &rowKinds[i]
		of := Depth(len(rowKinds), 40*len(rowKinds))
		if k.polls() {
			of *= 8
		}
		t.Run(k.name, func(t *testing.T) {
			for n, c := range sims() {
				if c.on, c.nth = k, i+n; c.fits() {
					t.Run(c.name, func(t *testing.T) { c.search(t, of) })
				}
			}
		})
	}
}

// Each of these plans has broken its run once.
func TestSimRowsReplays(t *testing.T) {
	for test, p := range map[string]string{
		"postgres/excl2":   "A/swap-k=yield",
		"postgres/farhold": "A/swap-k#2=late-300ms",
		"postgres/permits": "C/load-k=clock-7.5s",
		"etcd/farhold":     "A/swap-k#3=late-700ms",
		"nats/farhold":     "A/swap-k#4=late-300ms",
		"nats/once":        "A/swap-k=late-1.5s; B/swap-k=unseen-700ms", // by a fault of the model
		"ears/farall":      "A/swap-a=refused",
	} {
		t.Run(test, func(t *testing.T) {
			t.Setenv("EXPLORE", p)
			kind, name, _ := strings.Cut(test, "/")
			c := sims()[slices.IndexFunc(sims(), func(c *sim) bool { return c.name == name })]
			c.on = &rowKinds[slices.IndexFunc(rowKinds, func(k rowKind) bool { return k.name == kind })]
			c.search(t, 1)
		})
	}
}

// search tries one of so many single faults, and pairs too for a SIM_LEVEL of
// 2.
func (c *sim) search(t *testing.T, of int) {
	t.Helper()
	level, seed, limit := simSettings(t)
	if os.Getenv("SIM_LEVEL") != "" {
		of = 1
	}
	h := c.hunt(t)
	if os.Getenv("EXPLORE") != "" {
		Test(t, c.scenario, c.simulated)
		return
	}
	singles, story := h.singles(of)
	if story == "" && level > 1 {
		story = h.pairs(singles, seed, limit)
	}
	t.Log(h)
	if story != "" {
		t.Error(story)
	}
}

func simSettings(t *testing.T) (level int, seed uint64, limit time.Duration) {
	t.Helper()
	level, err := strconv.Atoi(cmp.Or(os.Getenv("SIM_LEVEL"), "1"))
	if err != nil {
		t.Fatal(err)
	}
	if seed, err = strconv.ParseUint(cmp.Or(os.Getenv("GUARD_SEED"), "1"), 10, 64); err != nil {
		t.Fatal(err)
	}
	if level > 1 {
		t.Logf("GUARD_SEED=%d", seed)
	}
	limit, err = time.ParseDuration(cmp.Or(os.Getenv("SIM_TIME"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	return level, seed, limit
}
