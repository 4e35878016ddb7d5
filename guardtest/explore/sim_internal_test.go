package explore

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/testsize"
)

// The simulation: redislocker on one Redis in memory, with each request, each
// message and each dial a step of a run. lab/simulation.md tells how to use it.

type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(mute{}) } // it tells of each lost connection

// TestSim tries each single fault in each scenario, and some of them in the
// short form. SIM_LEVEL=2 goes on with pairs, in an order that GUARD_SEED
// chooses. SIM_TIME is how long a scenario may take.
func TestSim(t *testing.T) {
	level, seed, limit := simSettings(t)
	for _, c := range sims() {
		t.Run(c.name, func(t *testing.T) {
			h := c.hunt(t)
			if os.Getenv("EXPLORE") != "" {
				Test(t, c.scenario, simulated)
				return
			}
			if limit > 0 {
				h.until = time.Now().Add(limit)
			}
			singles, story := h.singles(testsize.Pick(1, 40))
			if story == "" && level > 1 {
				story = h.pairs(singles, seed)
			}
			t.Log(h)
			if story != "" {
				t.Error(story)
			}
		})
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
