package peers

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/lab/torture/faults/rig"
)

var (
	tryAll = flag.Bool("all", false, "try all rows, which takes minutes, and not only the few that show that "+
		"this package works")
	update = flag.Bool("update", false, "write what was seen into "+seenFile)
)

// seenFile has the results from which docs/faults.md is made, see package
// faults.
const seenFile = "../../torture/faults/testdata/seen.json"

func TestMain(m *testing.M) {
	flag.Parse()
	if role := os.Getenv(rig.RoleEnv); role != "" {
		os.Exit(playPeer(role, os.Getenv(rig.AddrEnv)))
	}
	redis.SetLogger(quiet{})
	code := m.Run()
	if *update && code == 0 {
		if _, err := seen.by.Update(seenFile); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code) // leftovers of the libraries are not checked
}

// quiet keeps go-redis from logging every fault.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(context.Context, string, ...any) {}
