package redisproc

import (
	"errors"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lab(t *testing.T) *Lab {
	t.Helper()
	l := &Lab{Dir: t.TempDir()}
	t.Cleanup(l.Close)
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// started checks that a start was quick enough for one in each test, and logs
// its duration.
func started(t *testing.T, what string, from time.Time) {
	t.Helper()
	d := time.Since(from)
	t.Logf("%s: up in %v", what, d.Round(time.Millisecond))
	if d > 30*time.Second {
		t.Errorf("%s takes %v to come up", what, d)
	}
}

func TestCloseEndsEveryServerFrozenOnesToo(t *testing.T) {
	l := lab(t)
	servers, err := l.StartN(3)
	must(t, err)
	must(t, servers[1].Stop())
	servers[2].Kill()
	l.Close()
	for _, s := range servers {
		if c, err := net.Dial("tcp", s.Addr); err == nil {
			_ = c.Close()
			t.Errorf("%s still listens", s.Addr)
		}
	}
}

func TestRestartKeepsThePlaceAndOnlyWhatIsOnDisk(t *testing.T) {
	l := lab(t)
	for _, onDisk := range []bool{false, true} {
		s, err := l.Start("--appendonly", map[bool]string{false: "no", true: "yes"}[onDisk])
		must(t, err)
		must(t, s.do("set", "k", "v").Err())
		addr := s.Addr
		s.Kill()
		if err := s.do("ping").Err(); err == nil {
			t.Error("a killed server answers")
		}
		must(t, s.Restart())
		if n, _ := s.do("exists", "k").Int(); (n == 1) != onDisk || s.Addr != addr {
			t.Errorf("%d keys at %s after a restart, with append-only file %v", n, s.Addr, onDisk)
		}
	}
}

func TestShiftedClockMovesTheServersTimeAndNothingElse(t *testing.T) {
	l := lab(t)
	l.Clocks = true
	s, err := l.Start()
	must(t, err)
	ahead := func() time.Duration {
		parts, err := s.do("time").StringSlice()
		must(t, err)
		sec, _ := strconv.ParseInt(parts[0], 10, 64)
		return time.Until(time.Unix(sec, 0))
	}
	must(t, s.do("set", "k", "v", "px", "60000").Err())
	must(t, s.ShiftClock(-time.Hour))
	if d := ahead(); d > -50*time.Minute {
		t.Errorf("the clock is %v ahead, want an hour behind", d)
	}
	if ms, _ := s.do("pttl", "k").Int(); ms < 60_000 {
		t.Errorf("a key of a minute ends in %d ms on a clock that was set back by an hour", ms)
	}
	must(t, s.ShiftClock(time.Hour))
	if n, _ := s.do("exists", "k").Int(); n != 0 {
		t.Error("a key outlived a step of the clock by an hour")
	}
	plain, err := lab(t).Start()
	must(t, err)
	if err := plain.ShiftClock(time.Hour); !errors.Is(err, ErrNoClock) {
		t.Errorf("%v, want ErrNoClock", err)
	}
}

func TestSentinelFailsOverByCommandAndByItself(t *testing.T) {
	t.Parallel() // it mostly waits
	start := time.Now()
	s, err := lab(t).StartSentinel()
	must(t, err)
	started(t, "Sentinel", start)
	first, err := s.Primary()
	must(t, err)
	if first != s.Nodes[0] {
		t.Errorf("%s is the primary, want %s", first.Addr, s.Nodes[0].Addr)
	}
	must(t, s.Failover())
	second, err := s.Primary()
	must(t, err)
	if err := second.do("set", "k", "v").Err(); err != nil || second == first {
		t.Errorf("the new primary: %v, another: %v", err, second != first)
	}
	if first.awaitLink() != nil { // sentinels demote it if they hear of no other primary for 8 s
		must(t, first.awaitLink())
	}
	second.Kill()
	must(t, s.AwaitOther(second))
}

func TestClusterFailsOverAndMovesSlots(t *testing.T) {
	t.Parallel() // it mostly waits
	start := time.Now()
	c, err := lab(t).StartCluster(true)
	must(t, err)
	started(t, "Cluster", start)
	slot, err := c.Slot("k")
	must(t, err)
	for _, how := range []string{"", "FORCE"} {
		must(t, c.Failover(slot, how))
		must(t, c.AwaitSettled())
		old, err := c.Primary(slot)
		must(t, err)
		must(t, await("the old primary follows", func() bool { _, err := c.Replica(old); return err == nil }))
	}
	from, err := c.Primary(slot)
	must(t, err)
	must(t, from.do("set", "k", "v").Err())
	to, err := c.Primary((slot + slots/3) % slots)
	must(t, err)
	must(t, c.Migrate(slot, to, 0))
	if text, err := to.do("get", "k").Text(); text != "v" {
		t.Errorf("the moved key is %q, %v", text, err)
	}
	must(t, c.AwaitSettled())
	to.Kill()
	must(t, c.AwaitOther(slot, to))
}

func TestEveryServerThatIsInstalledCanBeStarted(t *testing.T) {
	binaries := Binaries()
	if len(binaries) == 0 {
		t.Error("no server is in PATH")
	}
	for _, b := range binaries {
		l := lab(t)
		l.Binary = b
		s, err := l.Start()
		must(t, err)
		must(t, s.do("ping").Err())
		t.Log(b)
	}
	if _, err := new(Lab).Start(); err == nil {
		t.Error("a server was started in the current directory")
	}
	l := lab(t)
	l.Binary = "no-such-server"
	if _, err := l.Start(); err == nil {
		t.Error("a server that is not installed was started")
	}
	if left, _ := os.ReadDir(l.Dir); len(left) != 0 {
		t.Error("it left something behind")
	}
}
