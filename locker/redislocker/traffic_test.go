package redislocker_test

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// warm opens a connection and teaches the server every script.
func warm(t *testing.T, l locker.Locker) {
	t.Helper()
	c := claim("warm")
	mustAcquire(t, l, c)
	mustAcquire(t, l, c) // by redislock's script
	tokens := fenced("warm with tokens")
	mustAcquire(t, l, tokens)
	mustRelease(t, l, tokens)
	held(t, l, claim("warm"), locker.Try{})
	if err := renew(t.Context(), t, l, c)[0]; err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l, c)
}

func TestAcquireAndReleaseTakeOneRoundTripEach(t *testing.T) {
	_, p, _, rdb := behindProxy(t)
	l := open(t, rdb)
	warm(t, l)
	for _, tt := range []struct {
		name    string
		claim   *locker.Claim
		scripts int
		also    []string
	}{{"plain", claim("k"), 0, []string{"SET"}}, {"with fencing", fenced("k"), 1, nil}} {
		p.Reset()
		mustAcquire(t, l, tt.claim)
		expectTraffic(t, tt.name+" acquire", p, 1, tt.scripts, tt.also...)
		mustRelease(t, l, tt.claim)
		expectTraffic(t, tt.name+" release", p, 1, 1)
	}
}

func TestHandingAKeyOverTakesOneRoundTrip(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	ls, es := listening(t, direct, 2)
	e := newEar()
	l := openFor(t, e, rdb)
	warm(t, l)
	first := claim("k")
	mustAcquire(t, l, first)
	release(t, l, first, claim("k"), locker.Released{}) // opens the inbox
	e.wakeAll(t)
	for name, next := range map[string]*locker.Claim{"gone for good": nil, "and queues": fenced("k")} {
		c, w, last := fenced("k"), fenced("k"), claim("k")
		mustAcquire(t, l, c)
		queue(t, ls[0], w)
		queue(t, ls[1], last)
		e.wanted(t, "k")
		e.wanted(t, "k")
		p.Reset()
		release(t, l, c, next, locker.Released{Waiting: 2, Handed: true, Queued: next != nil})
		expectTraffic(t, name, p, 1, 1)
		behind := 1
		if next != nil {
			behind = 2
		}
		es[0].granted(t, w, behind)
		direct.Del(t.Context(), lock("k"), line("k"))
	}
}

func TestALookAtAHeldKeyTakesOneRoundTrip(t *testing.T) {
	_, p, _, rdb := behindProxy(t)
	e := newEar()
	l := openFor(t, e, rdb)
	warm(t, l)
	owner := claim("k")
	mustAcquire(t, l, owner)
	queue(t, l, claim("k"))
	e.wakeAll(t) // the inbox is open
	for _, try := range []struct {
		how  locker.Try
		also []string
	}{
		{locker.Try{}, []string{"SET"}}, // tries to take it, then looks
		{locker.Try{Wait: true}, []string{"SET"}},
		{locker.Try{Held: true}, nil},
		{locker.Try{Wait: true, Held: true}, nil},
		{locker.Try{Wait: true, Queued: true}, nil},
	} {
		p.Reset()
		held(t, l, claim("k"), try.how)
		expectTraffic(t, fmt.Sprintf("%+v", try.how), p, 1+len(try.also), 1, try.also...)
	}
	c := claim("free")
	p.Reset()
	mustTry(t, l, c, locker.Try{Wait: true, Held: true})
	expectTraffic(t, "a look at a key that is free after all", p, 2, 2)
}

func TestAllRenewalsTakeOneRoundTrip(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	l := open(t, rdb)
	warm(t, l)
	var cs []*locker.Claim
	for i := range 100 { // as much as the client writes at once
		cs = append(cs, claim(strconv.Itoa(i)))
		mustAcquire(t, l, cs[i])
	}
	renewAll := func() {
		t.Helper()
		p.Reset()
		if err := errors.Join(renew(t.Context(), t, l, cs...)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{"with a script that the server knows", "with one that it forgot"} {
		renewAll()
		if c := p.Commands(); c["EVAL"] != 1 || c["EVALSHA"] != len(cs)-1 || p.RoundTrips() != 1 {
			t.Errorf("renewal %s: %d round trips of %v", what, p.RoundTrips(), c)
		}
		direct.ScriptFlush(t.Context())
	}
}

// expectTraffic compares the requests since its last call: scripts, and one of
// each other command.
func expectTraffic(t *testing.T, what string, p *redistest.Proxy, roundTrips, scripts int, others ...string) {
	t.Helper()
	want := map[string]int{}
	if scripts > 0 {
		want["EVALSHA"] = scripts
	}
	for _, name := range others {
		want[name]++
	}
	if names, n := p.Commands(), p.RoundTrips(); n != roundTrips || !maps.Equal(names, want) {
		t.Errorf("%s: %d round trips of %v, want %d of %v", what, n, names, roundTrips, want)
	}
	p.Reset()
}

func TestForgottenScriptsAreSentAgain(t *testing.T) {
	t.Parallel() // it waits for the end of an offer
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	l := open(t, rdb)
	forget := func() {
		t.Helper()
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	cs := []*locker.Claim{fenced("a"), claim("b"), fenced("c")}
	for _, c := range cs {
		forget()
		mustAcquire(t, l, c)
		forget()
		mustAcquire(t, l, c) // by another script, if it wants no tokens
	}
	forget()
	held(t, l, claim("a"), locker.Try{Wait: true, Held: true})
	forget()
	for i, err := range renew(t.Context(), t, l, cs...) {
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
	eventually(t, "no key is left, a among them, which its waiter may be handed and gives back", func() bool {
		return rdb.Exists(t.Context(), "guard:{a}", "guard:{b}", "guard:{c}").Val() == 0
	})
}

func TestLostReplyLeavesTheKeyWithItsOwner(t *testing.T) {
	_, p, direct, rdb := behindProxy(t)
	l := open(t, rdb)
	for _, c := range []*locker.Claim{claim("k"), fenced("f")} {
		warm(t, l)
		p.KillNextReply()
		if _, err := l.Acquire(within(t, time.Second), c, locker.Try{}); !errors.Is(err, locker.ErrUnavailable) {
			t.Fatalf("Acquire without a reply: %v, want ErrUnavailable", err)
		}
		if v := direct.Get(t.Context(), lock(c.Key)).Val(); len(v) < locker.OwnerLen || v[:locker.OwnerLen] != c.Owner {
			t.Fatalf("the request did not arrive: %q", v)
		}
		for _, held := range []bool{true, false} { // it looks first, and finds its own
			if token := mustTry(t, l, c, locker.Try{Held: held}); c.Fencing != (token > 0) {
				t.Errorf("token %d", token)
			}
		}
		mustRelease(t, l, c)
	}
}
