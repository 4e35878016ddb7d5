package guard_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func onRedis(t *testing.T, addr string, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return newGuard(t, redislocker.New(redistest.Client(t, addr)), opts...)
}

// lockCommands counts the proxy's commands without those of a connection's
// handshake.
func lockCommands(p *redistest.Proxy) (n int) {
	for name, count := range p.Commands() {
		switch name {
		case "HELLO", "AUTH", "CLIENT", "SELECT", "PING", "SUBSCRIBE":
		default:
			n += count
		}
	}
	return n
}

func TestDo_AnUncontendedCallIsTwoRoundTripsAndNoGoroutine(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	for name, opts := range map[string][]guard.Option{"plain": nil, "fencing": {guard.WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			g := onRedis(t, p.Addr, opts...)
			if err := g.Do(t.Context(), key, nop); err != nil { // connects, and loads the scripts
				t.Fatal(err)
			}
			// Each call has a goroutine of its own or none has. One of the
			// proxy may begin late, and a busy machine adds round trips: the
			// least of several rounds counts.
			const rounds = 10
			more, trips := rounds, 1000
			for n := 0; n < rounds && (more > 0 || trips > 2); n++ {
				p.Reset()
				before := runtime.NumGoroutine()
				err := g.Do(t.Context(), key, func(ctx context.Context) error {
					if opts != nil {
						if _, err := guard.FencingToken(ctx); err != nil {
							return err
						}
					}
					more = min(more, max(runtime.NumGoroutine()-before, 0))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				trips = min(trips, p.RoundTrips())
			}
			if more > 0 {
				t.Error("each call has a goroutine of its own")
			}
			if trips != 2 {
				t.Errorf("%d round trips for a call: %v", trips, p.Commands())
			}
		})
	}
}
