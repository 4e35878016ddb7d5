package guard_test

import (
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

func TestDoAll_FreeKeysOfRedisTakeTwoRoundTrips(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	for name, opts := range map[string][]guard.Option{"plain": nil, "fencing": {guard.WithFencing()}} {
		g := onRedis(t, p.Addr, opts...)
		for n := range 2 { // connects, and loads the scripts
			if err := g.DoAll(t.Context(), manyKeys(n+1), nop); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range []int{1, 3, 16, 64} {
			p.Reset()
			if err := g.DoAll(t.Context(), manyKeys(n), nop); err != nil {
				t.Fatal(err)
			}
			if trips := p.RoundTrips(); trips != 2 {
				t.Errorf("%s, %d keys: %d round trips: %v", name, n, trips, p.Commands())
			}
		}
	}
}
