package guard_test

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// settles calls Do until the key is idle. The first calls open the inbox.
func settles(t *testing.T, g *guard.Guard) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		ok(t, g.Do(t.Context(), key, nop))
		switch {
		case idle(t, g):
			return
		case time.Now().After(end):
			t.Fatal("the key is never idle")
		}
		time.Sleep(time.Millisecond)
	}
}

// An idle key costs its process no request, and another process few. A request
// is what the store sees, whoever sends it; those of a take-over follow each
// other.
func TestLinger_AnIdleKeyInRedisCostsNoRequest(t *testing.T) {
	t.Parallel() // it mostly waits
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	g, other := onRedis(t, p.Addr, guard.WithLinger(time.Second)), onRedis(t, p.Addr)
	ok(t, other.Do(t.Context(), "warm", nop))
	settles(t, g)
	if err := other.Do(t.Context(), key, nop); err != nil { // opens the inbox
		t.Fatal(err)
	}
	for name, take := range map[string]func() (ran bool, err error){
		"Do":    func() (bool, error) { return true, other.Do(t.Context(), key, nop) },
		"TryDo": func() (bool, error) { return other.TryDo(t.Context(), key, nop) },
	} {
		for end := time.Now().Add(time.Minute); ; { // on a busy machine the tenure may end, or its owner be late
			settles(t, g)
			p.Reset()
			for range 100 {
				ok(t, g.Do(t.Context(), key, nop))
			}
			n := p.RoundTrips()
			p.Reset()
			ran, err := take()
			ok(t, err)
			if n == 0 && ran && lockCommands(p) <= 6 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("%d requests of 100 calls; then %s ran: %v, with %v", n, name, ran, p.Commands())
			}
		}
		t.Log(name, p.RoundTrips(), p.Commands())
		time.Sleep(1100 * time.Millisecond) // the key may linger again
	}
}
