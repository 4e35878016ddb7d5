package redislocker_test

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// warm makes a connection and the server know every script.
func warm(t *testing.T, l guard.Locker) {
	t.Helper()
	c := fenced("warm")
	mustAcquire(t, l, c)
	if _, err := l.Acquire(t.Context(), claim("warm")); !errors.Is(err, guard.ErrNotAcquired) {
		t.Fatal(err)
	}
	if err := l.Renew(t.Context(), []*guard.Claim{c})[0]; err != nil {
		t.Fatal(err)
	}
	c.Wanted = true
	mustRelease(t, l, c)
}

func TestAcquireAndReleaseTakeOneRoundTripEach(t *testing.T) {
	_, p, _, rdb := behindProxy(t)
	l := open(t, rdb)
	warm(t, l)
	for name, c := range map[string]*guard.Claim{"plain": claim("k"), "with fencing": fenced("k")} {
		p.Reset()
		mustAcquire(t, l, c)
		expectTraffic(t, name+" acquire", p, 1, map[bool]int{false: 1, true: 2}[c.Fencing])
		mustRelease(t, l, c)
		expectTraffic(t, name+" release", p, 1, 1, "ZCARD")
		c = claim("k")
		mustAcquire(t, l, c)
		c.Wanted = true
		p.Reset()
		mustRelease(t, l, c)
		expectTraffic(t, name+" release of a wanted key", p, 1, 2)
	}
}

func TestPollOfAHeldKeyTakesOneRoundTrip(t *testing.T) {
	_, p, _, rdb := behindProxy(t)
	l := open(t, rdb)
	warm(t, l)
	mustAcquire(t, l, claim("k"))
	c := claim("k")
	for tries, commands := range []int{2, 1, 1} { // the first tries to acquire, then looks
		c.Tries = tries
		p.Reset()
		if _, err := l.Acquire(t.Context(), c); !errors.Is(err, guard.ErrNotAcquired) {
			t.Fatal(err)
		}
		expectTraffic(t, fmt.Sprintf("try %d", tries), p, commands, commands)
	}
}

func TestAllRenewalsTakeOneRoundTrip(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	l := open(t, rdb)
	warm(t, l)
	var cs []*guard.Claim
	for i := range 100 { // as much as the client writes at once
		cs = append(cs, claim(strconv.Itoa(i)))
		mustAcquire(t, l, cs[i])
	}
	renew := func() {
		t.Helper()
		p.Reset()
		if err := errors.Join(l.Renew(t.Context(), cs)...); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	expectTraffic(t, "renewal", p, 1, len(cs))
	direct.ScriptFlush(t.Context())
	renew()
	if c := p.Commands(); c["EVAL"] != 1 || c["EVALSHA"] != 2*len(cs)-1 || p.RoundTrips() != 2 {
		t.Errorf("renewal with a script that the server forgot: %d round trips of %v", p.RoundTrips(), c)
	}
}

// expectTraffic compares what was sent since the last call of it.
func expectTraffic(t *testing.T, what string, p *redistest.Proxy, roundTrips, scripts int, others ...string) {
	t.Helper()
	want := map[string]int{"EVALSHA": scripts}
	for _, name := range others {
		want[name]++
	}
	if names, n := p.Commands(), p.RoundTrips(); n != roundTrips || !maps.Equal(names, want) {
		t.Errorf("%s: %d round trips of %v, want %d of %v", what, n, names, roundTrips, want)
	}
	p.Reset()
}

func TestForgottenScriptsAreSentAgain(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	l := open(t, rdb)
	forget := func() {
		t.Helper()
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	cs := []*guard.Claim{fenced("a"), claim("b"), fenced("c")}
	for _, c := range cs[:2] {
		forget()
		mustAcquire(t, l, c)
	}
	mustAcquire(t, l, cs[2]) // the server knows redislock's script, but not the one behind it
	forget()
	if _, err := l.Acquire(t.Context(), claim("a")); !errors.Is(err, guard.ErrNotAcquired) {
		t.Error(err)
	}
	forget()
	for i, err := range l.Renew(t.Context(), cs) {
		if err != nil {
			t.Errorf("Renew %d: %v", i, err)
		}
	}
	forget()
	if n, err := l.Fence(t.Context(), cs[0]); n == 0 || err != nil {
		t.Error("Fence:", n, err)
	}
	for _, c := range cs {
		forget()
		mustRelease(t, l, c)
	}
	if n := rdb.Exists(t.Context(), "guard:{a}", "guard:{b}", "guard:{c}").Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestLostReplyLeavesTheKeyWithItsOwner(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	l := open(t, rdb)
	for _, c := range []*guard.Claim{claim("k"), fenced("f")} {
		warm(t, l)
		p.KillNextReply()
		if _, err := l.Acquire(within(t, time.Second), c); !errors.Is(err, guard.ErrUnavailable) {
			t.Fatalf("Acquire without a reply: %v, want ErrUnavailable", err)
		}
		if v := direct.Get(t.Context(), "guard:{"+c.Key+"}").Val(); len(v) < guard.OwnerLen || v[:guard.OwnerLen] != c.Owner {
			t.Fatalf("the request did not arrive: %q", v)
		}
		if token := mustAcquire(t, l, c); c.Fencing != (token > 0) {
			t.Errorf("token %d", token)
		}
		mustRelease(t, l, c)
	}
}

func TestClaimWithoutAnAnsweredTryCanBeReleased(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	l := open(t, rdb)
	warm(t, l)
	c := claim("k")
	p.KillNextReply()
	if _, err := l.Acquire(within(t, time.Second), c); !errors.Is(err, guard.ErrUnavailable) {
		t.Fatal(err)
	}
	mustRelease(t, l, c)
	if n := direct.Exists(t.Context(), "guard:{k}").Val(); n != 0 {
		t.Error("the key is left")
	}
	if _, err := l.Release(t.Context(), c); !errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("second Release: %v, want ErrLeaseLost", err)
	}
}

func TestReleaseWithoutAReplyIsUnclear(t *testing.T) {
	_, p, _, rdb := behindProxy(t)
	l := open(t, rdb)
	warm(t, l)
	c := claim("k")
	mustAcquire(t, l, c)
	p.KillNextReply()
	if _, err := l.Release(within(t, time.Second), c); !errors.Is(err, guard.ErrUnavailable) || errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("Release without a reply: %v, want ErrUnavailable alone", err)
	}
}
