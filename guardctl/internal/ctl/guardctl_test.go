package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main())
	}
	goleak.VerifyTestMain(m)
}

// asProgram makes the test binary guardctl itself.
const asProgram = "GUARDCTL_TEST_AS_PROGRAM"

// run runs guardctl on a server, with answer as its input.
func run(t *testing.T, s *redistest.Server, answer string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	all := append([]string{"guardctl", "--url", "redis://" + s.Addr}, args...)
	err := command(strings.NewReader(answer), &out, &out).Run(t.Context(), all)
	return out.String(), err
}

func mustRun(t *testing.T, s *redistest.Server, args ...string) string {
	t.Helper()
	out, err := run(t, s, "", args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// instance is a guard as in another process.
func instance(t *testing.T, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(redislocker.New(rdb), append([]guard.Option{
		guard.WithLogger(slog.New(slog.DiscardHandler)), guard.WithMaxWait(testguard.Patience),
		guard.WithMaxHold(time.Hour),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testguard.Patience)
		defer cancel()
		_ = g.Close(ctx)
	})
	return g
}

// hang holds key until its context ends. It returns a channel that receives the
// result of Do.
func hang(t *testing.T, g *guard.Guard, key string) (lost <-chan error) {
	t.Helper()
	holds, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		err := g.Do(t.Context(), key, func(ctx context.Context) error {
			close(holds)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		ended <- err
	}()
	select {
	case <-holds:
	case err := <-ended:
		t.Fatal(err)
	}
	return ended
}

func TestOnABusyServerAnOperatorSeesAndFreesAHungKey(t *testing.T) {
	t.Parallel()
	const keys, waiters = 10_000, 50
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	fill(t, rdb, keys-1)
	hung := hang(t, instance(t, rdb, guard.WithName("hangs"), guard.WithMaxHold(0)), "stock:hot")

	served := make(chan error, waiters)
	var mu sync.Mutex // guards running
	running := 0
	for range waiters {
		g := instance(t, rdb, guard.WithName("waits"), guard.WithMaxWait(time.Minute))
		go func() {
			served <- g.Do(t.Context(), "stock:hot", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				running++
				return nil
			})
		}()
	}
	var state guard.KeyState
	testguard.Eventually(t, "all wait", func() bool {
		decode(t, mustRun(t, s, "show", "--json", "stock:hot"), &state)
		return state.Waiting == waiters
	})
	text := mustRun(t, s, "show", "stock:hot")
	for _, want := range []string{"hangs", state.Owner, state.Holder.Host, "waiting       50", "\n  50.", "waits"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}

	start := time.Now()
	text = mustRun(t, s, "ls")
	t.Logf("ls of %d keys and %d waiters took %v", keys, waiters, time.Since(start))
	if lines := strings.Split(text, "\n"); !strings.HasPrefix(lines[1], "stock:hot ") || len(lines) != keys+3 ||
		lines[keys+1] != "10000 held, 50 waiting" {
		t.Errorf("%d lines, the first is %q, the last %q", len(lines), lines[1], lines[len(lines)-2])
	}

	wrong := strings.Repeat("A", len(state.Owner))
	if _, err := run(t, s, "", "release", "--yes", "--owner", wrong, "stock:hot"); err == nil {
		t.Error("a wrong owner released a key")
	}
	if out, err := run(t, s, "no\n", "release", "stock:hot"); err == nil || !strings.Contains(out, "hangs") {
		t.Errorf("after a no: %v, %s", err, out)
	}
	select {
	case err := <-hung:
		t.Fatal("the holder ended before it was released:", err)
	default:
	}
	if out, err := run(t, s, "yes\n", "release", "--owner", state.Owner, "stock:hot"); err != nil ||
		!strings.Contains(out, "50 waited") {
		t.Fatal(out, err)
	}
	start = time.Now()
	if err := <-hung; !errors.Is(err, guard.ErrLeaseLost) {
		t.Error("the hung holder:", err)
	}
	t.Logf("the holder's context ended after %v", time.Since(start))
	for range waiters {
		if err := <-served; err != nil {
			t.Error("a waiter:", err)
		}
	}
	if running != waiters {
		t.Errorf("%d waiters ran of %d", running, waiters)
	}
}

// fill lets other holders hold n keys.
func fill(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	pipe := rdb.Pipeline()
	for i := range n {
		value := fmt.Sprintf(`%022d%022d{"host":"h","pid":%d,"name":"stock"}`, i, 1, i)
		pipe.Set(t.Context(), fmt.Sprintf("guard:{stock:%d}", i), value, time.Hour)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}

func TestReleaseNeedsAYes(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	fill(t, rdb, 1)
	for answer, freed := range map[string]bool{"": false, "y\n": false, "no\n": false, "yes\n": true} {
		_, err := run(t, s, answer, "release", "stock:0")
		if (err == nil) != freed || (rdb.Exists(t.Context(), "guard:{stock:0}").Val() == 0) != freed {
			t.Errorf("after %q: %v", answer, err)
		}
		fill(t, rdb, 1)
	}
	if out := mustRun(t, s, "release", "--yes", "--json", "stock:0"); !strings.Contains(out, `"released":true`) {
		t.Error(out)
	}
	if _, err := run(t, s, "", "release", "--yes", "stock:0"); err == nil {
		t.Error("a key that is free was released")
	}
}

func TestLsWritesAValueToALine(t *testing.T) {
	s := redistest.Start(t)
	fill(t, redistest.Client(t, s.Addr), 3)
	var keys []string
	for line := range strings.Lines(mustRun(t, s, "ls", "--json")) {
		var state guard.KeyState
		decode(t, line, &state)
		keys = append(keys, state.Key)
	}
	if got := strings.Join(keys, " "); got != "stock:0 stock:1 stock:2" {
		t.Error(got)
	}
	if out := mustRun(t, s, "ls", "--waited"); !strings.Contains(out, "0 held, 0 waiting") {
		t.Error(out)
	}
	if out := mustRun(t, s, "--prefix", "shop", "ls"); !strings.Contains(out, "0 held, 0 waiting") {
		t.Error(out)
	}
}

func TestAFreeKeyIsAnAnswer(t *testing.T) {
	s := redistest.Start(t)
	if out := mustRun(t, s, "show", "stock:42"); !strings.Contains(out, "nobody") {
		t.Error(out)
	}
	var state guard.KeyState
	decode(t, mustRun(t, s, "show", "--json", "stock:42"), &state)
	if state.Held {
		t.Errorf("%+v", state)
	}
	if help := mustRun(t, s, "show", "--help"); !strings.Contains(help, "exit status 0") {
		t.Errorf("the help does not say so: %s", help)
	}
}

func TestWithoutAnAnswerThereIsOnlyAnError(t *testing.T) {
	s := redistest.Start(t)
	s.Kill()
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"show", "stock:42"}, {"release", "--yes", "stock:42"}} {
		if out, err := run(t, s, "", args...); !errors.Is(err, guard.ErrUnavailable) || out != "" {
			t.Errorf("%v: %v, and %q on standard output", args, err, out)
		}
	}
}

func TestJSONHasNamesInSnakeCase(t *testing.T) {
	s := redistest.Start(t)
	hang(t, instance(t, redistest.Client(t, s.Addr)), "stock:42")
	for _, args := range [][]string{{"ls", "--json"}, {"show", "--json", "stock:42"}, {"check", "--json"}} {
		out := mustRun(t, s, args...)
		for _, name := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(out, -1) {
			if name[1] != strings.ToLower(name[1]) {
				t.Errorf("%v: %s in %s", args, name[1], out)
			}
		}
		if args[0] != "check" && !strings.Contains(out, `"instance":"`) {
			t.Errorf("%v: no instance in %s", args, out)
		}
	}
}

// Findings that a new version of redislocker has can be accepted as well.
func TestEveryFindingOfRedislockerCanBeAccepted(t *testing.T) {
	source, err := os.ReadFile("../../../locker/redislocker/check.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, finding := range regexp.MustCompile(`\tFinding\w+ += "([a-z-]+)"`).FindAllSubmatch(source, -1) {
		names = append(names, string(finding[1]))
	}
	if known := new(redislocker.Locker).Capabilities().Findings; !slices.Equal(names, known) {
		t.Errorf("check knows %q, redislocker has %q", known, names)
	}
}

func TestCheckSaysWhatToChange(t *testing.T) {
	t.Parallel()
	if out := mustRun(t, redistest.Start(t), "check"); !strings.Contains(out, "round trip") ||
		!strings.Contains(out, "ok") {
		t.Error(out)
	}
	s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	out, err := run(t, s, "", "check", "--json")
	var h health
	decode(t, out, &h)
	if err == nil || h.OK || !strings.Contains(h.Error, "maxmemory-policy") || h.RoundTrip <= 0 {
		t.Error(out, err)
	}
	if out, err = run(t, s, "", "check"); err == nil || !strings.Contains(out, "refuse      eviction: ") {
		t.Error(out, err)
	}
	if out := mustRun(t, s, "check", "--accept", "eviction"); !strings.Contains(out, "warn        eviction: ") ||
		!strings.Contains(out, "with warnings") {
		t.Error(out)
	}
	if _, err := run(t, s, "", "check", "--ttl", "1ns"); !errors.Is(err, guard.ErrInvalidOption) {
		t.Error(err)
	}
	s.Kill()
	if _, err := run(t, s, "", "check"); !errors.Is(err, guard.ErrUnavailable) {
		t.Error(err)
	}
}

// screen is the output of watch.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) has(want string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), want)
}

func TestWatchGoesOnUntilItIsEnded(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	out, ctx := new(screen), t.Context()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- command(strings.NewReader(""), out, out).Run(ctx,
			[]string{"guardctl", "--url", "redis://" + s.Addr, "watch", "-n", "100ms"})
	}()
	testguard.Eventually(t, "nothing is seen", func() bool { return out.has("0 held") })
	fill(t, rdb, 2)
	testguard.Eventually(t, "two keys are seen", func() bool { return out.has("2 held") && out.has("stock:1") })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAClusterIsSeenAsAWhole(t *testing.T) {
	nodes := redistest.StartCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	g := instance(t, rdb)
	err := g.DoAll(t.Context(), strings.Fields("a b c d e f g h i j"), func(context.Context) error {
		if out := mustRun(t, nodes[1], "--cluster", "ls"); !strings.Contains(out, "10 held") {
			t.Error(out)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFlagsThatAreWrongAreNamed(t *testing.T) {
	s := redistest.Start(t)
	for want, args := range map[string][]string{
		"--url is not understood":  {"--url", "http://user:secret@x", "ls"},
		"exclude each other":       {"--cluster", "--sentinel", "m", "ls"},
		"begins with rediss":       {"--tls-name", "x", "ls"},
		"takes 1 argument, not 0":  {"show"},
		"takes 0 arguments, not 1": {"ls", "x"},
		"an empty one does not":    {"show", ""},
		`no command "free"`:        {"free", "stock:42"},
		`no command "releas"`:      {"releas"},
		"No help topic for 'free'": {"help", "free"},
		`knows no finding "evicton", only eviction, round-trip, rights`: {
			"check", "--accept", "eviction",
			"--accept", "evicton",
		},
	} {
		out, err := run(t, s, "", args...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || out != "" {
			t.Errorf("%v: %v, want %q; and %q on standard output", args, err, want, out)
		}
	}
}

func TestACommandLineHasItsExitStatus(t *testing.T) {
	s := redistest.Start(t)
	for _, is := range []struct {
		args      []string
		status    int
		out, errs string // their beginnings
	}{
		{nil, 2, "", "NAME:\n   guardctl - who holds"},
		{[]string{"--version"}, 0, "guardctl version ", ""},
		{[]string{"help"}, 0, "NAME:\n   guardctl", ""},
		{[]string{"--url", "redis://" + s.Addr, "ls"}, 0, "KEY  GUARD", ""},
		{[]string{"free"}, 1, "", "guardctl: there is no command \"free\""},
	} {
		var out, errs bytes.Buffer
		status := Run(t.Context(), append([]string{"guardctl"}, is.args...), strings.NewReader(""), &out, &errs)
		if status != is.status || !strings.HasPrefix(out.String(), is.out) ||
			!strings.HasPrefix(errs.String(), is.errs) ||
			is.out == "" && out.Len() > 0 || is.errs == "" && errs.Len() > 0 {
			t.Errorf("%q: status %d, %.80q, %.80q", is.args, status, &out, &errs)
		}
	}
}
