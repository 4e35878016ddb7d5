package explore

import (
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// simNet is the network and the store of a run.
type simNet interface {
	network

	// begin is called before the first process.
	begin(c *sim)
	// left tells of leases and queues that are still there, when all processes
	// have ended long ago, or when the last guard was just closed.
	left(closed bool) []string
	// loses notes that the store has lost something. lastLoss says when it last
	// did; zero: never.
	loses()
	lastLoss() time.Time
}

// simulated keeps the leases of each run in the store of c.
func (c *sim) simulated(s *settings) {
	s.flush = c.on == nil
	s.network = func(w *World) network {
		w.background = true // a run goes on for a while
		w.step = 100 * tick // about what a request takes: so no fence passes the clock
		if c.on != nil {
			return newRowNet(w, c.on)
		}
		return newRedisNet(w)
	}
}

// wires are what both networks have. The methods are safe for concurrent use.
type wires struct {
	w   *World
	far time.Duration // of a round trip; set before the first process

	wireMu sync.Mutex             // guards the fields below; never held across a gate
	out    map[*process]time.Time // until when a process does not reach the store
	lostAt time.Time              // when the store last lost something, or will have
}

func newWires(w *World) *wires { return &wires{w: w, out: make(map[*process]time.Time)} }

func (r *wires) loses() { r.losesUntil(time.Now()) }

// losesUntil notes that the store loses something now and until then.
func (r *wires) losesUntil(t time.Time) {
	r.wireMu.Lock()
	defer r.wireMu.Unlock()
	if t.After(r.lostAt) {
		r.lostAt = t
	}
}

func (r *wires) lastLoss() time.Time {
	r.wireMu.Lock()
	defer r.wireMu.Unlock()
	return r.lostAt
}

// outFor is how much longer p does not reach the store.
func (r *wires) outFor(p *process) time.Duration {
	r.wireMu.Lock()
	defer r.wireMu.Unlock()
	return time.Until(r.out[p])
}

// isolate keeps p from the store for as long as k takes.
func (r *wires) isolate(p *process, k kind) {
	r.wireMu.Lock()
	defer r.wireMu.Unlock()
	r.out[p] = time.Now().Add(outages[k])
}

// travel is half a round trip.
func (r *wires) travel() {
	if r.far > 0 {
		time.Sleep(r.far / 2)
	}
}

// hold is time that something of p spends in the network. hold reports false at
// the end of the run.
func (r *wires) hold(p *process, d time.Duration, what string, touches touched) bool {
	w := r.w
	w.mu.Lock()
	w.running++
	w.mu.Unlock()
	defer w.leave()
	select {
	case <-time.After(limits.Apart(d)):
	case <-w.end:
		return false
	}
	return w.wire.pass(p.name+" late "+what, minor, touches) != over
}
