package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/lab/internal/childproc"
)

var (
	update     = flag.Bool("update", false, "write what the rows did into docs/faults.md")
	partitions = flag.Int("partitions", 100, "how many partitions TestFault17APartitionedHolder... injects")
)

func TestMain(m *testing.M) {
	flag.Parse()
	redis.SetLogger(quiet{})
	if childproc.IsChild() {
		os.Exit(childproc.Main(play))
	}
	if testing.Short() {
		_ = flag.Set("test.parallel", "8") // they wait most of the time, and nothing is timed
	}
	machine.run()
	code := m.Run()
	machine.end()
	if *update { // a row that failed is not recorded
		if err := writePage(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// quiet keeps go-redis from logging every fault.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(context.Context, string, ...any) {}
