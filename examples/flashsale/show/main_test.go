package show

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/examples/flashsale/otlp"
	"github.com/go-lockguard/guard/internal/redistest"
)

// mainEnv makes the test binary the program itself, for tests that need it as a
// process.
const mainEnv = "FLASHSALE_MAIN"

func TestMain(m *testing.M) {
	Exporters = otlp.Exporters
	if settings := os.Getenv(instanceEnv); settings != "" {
		os.Exit(instanceMain(settings))
	}
	if os.Getenv(mainEnv) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(func() int {
		flag.Parse()
		// Each is a shop of many processes, and some count how much it sells.
		_ = flag.Set("test.parallel", "1")
		code := m.Run()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// secret is a password that is not to be seen anywhere.
const secret = "s3cret"

// sell runs the program with -json and returns its exit status and its last
// line. Its buyers wait for a minute, so that they sell out on a slow machine
// too.
func sell(t *testing.T, args ...string) (code int, res result) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(append([]string{"-json", "-wait", "1m"}, args...), &stdout, &stderr)
	t.Logf("%s", stderr.String())
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &res); err != nil {
		t.Fatalf("exit status %d, last line of stdout %q: %v", code, lines[len(lines)-1], err)
	}
	return code, res
}

// wantEmpty fails t if the run has left a key in Redis.
func wantEmpty(t *testing.T, addr string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	keys, err := rdb.Keys(context.WithoutCancel(t.Context()), "*").Result() // in a Cleanup, t's context has ended
	if err != nil || len(keys) > 0 {
		t.Errorf("left in Redis: %v, %v", keys, err)
	}
}

func TestALockSellsEveryItemOnceAndLosesNoUpdate(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"lock", "fence"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			code, res := sell(t, "-mode", mode, "-redis", server.Addr)
			if code != exitOK {
				t.Errorf("exit status %d", code)
			}
			if res.Sold != 500 || res.Orders != 500 || res.Oversold != 0 || res.LostUpdates != 0 {
				t.Errorf("%d sold, %d orders, %d oversold, %d lost updates; want 500, 500, 0, 0",
					res.Sold, res.Orders, res.Oversold, res.LostUpdates)
			}
			if sum := res.Sold + res.Refused + res.Errors; sum != res.Requests || res.Errors != 0 {
				t.Errorf("%d sold + %d refused + %d errors of %d requests", res.Sold, res.Refused,
					res.Errors, res.Requests)
			}
			if res.Views == 0 || res.OddViews != 0 {
				t.Errorf("%d of %d page views beside a sale, want 0 of some", res.OddViews, res.Views)
			}
			if res.HoldP50 <= 0 || res.HoldP99 < res.HoldP50 || res.WaitP99 < res.WaitP50 || res.RPS <= 0 {
				t.Errorf("hold %v and %v ms, wait %v and %v ms, %v/s", res.HoldP50, res.HoldP99,
					res.WaitP50, res.WaitP99, res.RPS)
			}
			wantEmpty(t, server.Addr)
		})
	}
}

func TestNoLockOversellsOrLosesUpdates(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"", redistest.Start(t).Addr} {
		args := []string{"-mode", "none", "-requests", "400", "-stock", "100"}
		if addr != "" {
			args = append(args, "-redis", "redis://"+addr+"/0")
		}
		code, res := sell(t, args...)
		if code != exitOK {
			t.Errorf("exit status %d: without a lock nothing is promised", code)
		}
		if res.Oversold+res.LostUpdates == 0 {
			t.Errorf("%d oversold, %d lost updates: the harm that the lock prevents does not show",
				res.Oversold, res.LostUpdates)
		}
	}
}

func TestOneScriptNeedsNoLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	code, res := sell(t, "-mode", "atomic", "-requests", "400", "-stock", "100", "-redis", server.Addr)
	if code != exitOK || res.Sold != 100 || res.Orders != 100 || res.Oversold != 0 || res.LostUpdates != 0 {
		t.Errorf("exit status %d, %+v", code, res)
	}
	wantEmpty(t, server.Addr)
}

func TestBadFlagsAreNamedAndExitWithStatus2(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // in the message
	}{
		{"-mode maybe", "-mode"},
		{"-style loud", "-style"},
		{"-style generated -mode none", "-style"},
		{"-instances 0", "-instances"},
		{"-requests 0", "-requests"},
		{"-concurrency -1", "-concurrency"},
		{"-stock -1", "-stock"},
		{"-think -1ms", "-think"},
		{"-ttl 50ms", "-ttl"},
		{"-ttl 1500us", "-ttl"},
		{"-wait -1s", "-wait"},
		{"-wait soon", "-wait"},
		{"-redis nonsense", "-redis"},
		{"-redis ftp://localhost", "-redis"},
		{"-redis redis+ring://localhost:1", "-redis"},
		{"-redis http+cluster://localhost:1", "-redis"},
		{"-redis redis+sentinel://localhost:26379", "-redis"},
		{"-redis redis+sentinel://localhost:1,/mymaster", "host:port"},
		{"-redis redis+sentinel://localhost:1/mymaster?colour=red", "-redis"},
		{"-redis redis+cluster://localhost:1,localhost", "host:port"},
		{"-redis redis+cluster://localhost:1/mymaster", "-redis"},
		{"-story -stock 5", "-stock"},
		{"-story -mode none", "-mode"},
		{"-story -trace", "-trace"},
		{"-trace -mode none", "-trace"},
		{"-otlp localhost:4318", "-otlp"},
		{"-web 0.0.0.0:8080", "this machine only"},
		{"-web example.com:80", "this machine only"},
		{"-web 8080", "-web"},
		{"-web -story", "-story"},
		{"-web -trace", "-trace"},
		{"-web -requests 1000000", "-requests"},
		{"-record x.html -trace", "-trace"},
		{"-frobnicate", "-frobnicate"},
		{"fence", `"fence"`},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(c.args), &stdout, &stderr); code != exitUsage {
			t.Errorf("%s: exit status %d, want %d", c.args, code, exitUsage)
		}
		if !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%s: stderr %q, stdout %q", c.args, stderr.String(), stdout.String())
		}
	}
}

func TestHelpShowsAVisitorsFlagsAndOnDemandAll(t *testing.T) {
	help := func(args ...string) (flags []string) {
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
			t.Errorf("%v: exit status %d, stderr %q", args, code, stderr.String())
		}
		for line := range strings.Lines(stdout.String()) {
			if name, found := strings.CutPrefix(line, "  -"); found {
				flags = append(flags, strings.Fields(name)[0])
			}
		}
		slices.Sort(flags)
		return flags
	}
	if got, want := help("-h"), slices.Sorted(slices.Values(visitorFlags)); !slices.Equal(got, want) {
		t.Errorf("-h shows %v, want %v", got, want)
	}
	if !slices.Contains(help("-h"), "story") {
		t.Error("-h hides the story")
	}
	var every []string
	newFlagSet(&config{}).VisitAll(func(f *flag.Flag) { every = append(every, f.Name) })
	if got := help("-h", "all"); !slices.Equal(got, every) {
		t.Errorf("-h all shows %v, want %v", got, every)
	}
}

func TestRedisThatDoesNotAnswerFailsTheRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	var stdout, stderr bytes.Buffer
	code := run([]string{"-redis", server.Addr}, &stdout, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "cannot use Redis "+server.Addr) {
		t.Errorf("exit status %d, stderr %q", code, stderr.String())
	}
}

func TestStoryGoesAsTold(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-story")
	cmd.Env = append(os.Environ(), mainEnv+"=1", "COLUMNS=40")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	t.Logf("%s%s", stdout.String(), stderr.String())
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(stdout.String(), "\x1b") {
		t.Error("colors, though stdout is not a terminal")
	}
	wantFit(t, stdout.String(), 40)
}
