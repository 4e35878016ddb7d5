package rowlocker

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// deadFor is how long a process without a pulse counts as dead, and a live one
// as alive, before the store is asked again.
const deadFor = 400 * time.Millisecond

// memory is what this process knows of rows. Nothing depends on it but speed,
// and the time at which leases of others end in a store without a clock. It is
// safe for concurrent use.
type memory struct {
	began time.Time

	mu     sync.Mutex // guards what follows; never held across I/O or a callback
	rows   map[string]Row
	sights map[string]map[int64]int64 // when stamps of a key were first seen
	ahead  int64                      // of the store's clock, at least; 0: not known
	pulses map[string]pulse           // by instance
}

func newMemory() *memory {
	return &memory{
		began: time.Now().Add(-time.Hour), rows: map[string]Row{}, sights: map[string]map[int64]int64{},
		pulses: map[string]pulse{},
	}
}

// pulse is what was last heard of a process, and until when that counts.
type pulse struct {
	dead  bool
	until time.Time
}

// now is the time line of this process, in µs.
func (m *memory) now() int64 { return time.Since(m.began).Microseconds() }

func (m *memory) first(key string, stamp, now int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.sights[key][stamp]; ok {
		return at
	}
	if m.sights[key] == nil {
		lockerkit.MakeRoom(m.sights)
		m.sights[key] = map[int64]int64{}
	}
	m.sights[key][stamp] = now
	return now
}

// clock notes a time by the store's clock, which has come just now.
func (m *memory) clock(now int64) {
	if now == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead = now - m.now()
}

// storeNow returns the time by the store's clock at least, or 0.
func (m *memory) storeNow() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ahead == 0 {
		return 0
	}
	return m.now() + m.ahead
}

// tidy forgets the stamps of a key that are not in its row any more.
func (m *memory) tidy(key string, r *row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.sights[key]
	if len(seen) <= 2*(len(r.owners)+len(r.queue))+8 {
		return
	}
	in := map[int64]bool{r.version: true, r.record.Since: true}
	for _, s := range slices.Concat(r.owners, r.settled) { // some of which stay beside the row
		in[s.Since] = true
	}
	for _, w := range r.queue {
		in[w.Since] = true
	}
	for stamp := range seen {
		if !in[stamp] {
			delete(seen, stamp)
		}
	}
}

// keep remembers a row, unless a newer one is known.
func (m *memory) keep(r Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Version == 0 {
		delete(m.rows, r.Key)
		delete(m.sights, r.Key)
		return
	}
	old, ok := m.rows[r.Key]
	if ok && old.Version > r.Version {
		return
	}
	if ok && r.Now == 0 && r.Written < old.Written {
		m.ahead = 0 // the store's clock was set back, and a message does not tell to when
	}
	lockerkit.MakeRoom(m.rows)
	m.rows[r.Key] = r
}

// same gives r what is known of its Value, if that is the same: nobody has to
// read it again.
func (m *memory) same(r *Row) {
	if known, ok := m.known(r.Key); ok && bytes.Equal(known.Value, r.Value) {
		r.Value, r.says = known.Value, known.says
	}
}

// stands notes a ticket beside a row that is known, or that it has gone.
func (m *memory) stands(key string, t Ticket, gone bool) (r Row, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok = m.rows[key]; !ok {
		return r, false
	}
	r.Tickets = slices.DeleteFunc(slices.Clone(r.Tickets), func(old Ticket) bool { return old.Name == t.Name })
	if !gone {
		r.Tickets = append(r.Tickets, t)
	}
	m.rows[key] = r
	return r, true
}

// left returns the tickets that are known beside the row of key, without those
// that are dropped.
func (m *memory) left(key string, drop []Ticket) (left []Ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.rows[key].Tickets {
		if !slices.ContainsFunc(drop, func(d Ticket) bool { return d.Name == t.Name }) {
			left = append(left, t)
		}
	}
	return left
}

// known returns the row of key that is known.
func (m *memory) known(key string) (Row, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rows[key]
	return r, ok
}

// forget forgets the row of key, because nobody knows what is there.
func (m *memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rows, key)
}

// dead reports whether a process had no pulse a moment ago.
func (m *memory) dead(instance string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pulses[instance]
	return p.dead && time.Now().Before(p.until)
}

// stale returns the instances that were not asked for a moment ago.
func (m *memory) stale(instances []string) (ask []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, i := range instances {
		if !now.Before(m.pulses[i].until) && !slices.Contains(ask, i) {
			ask = append(ask, i)
		}
	}
	return ask
}

// heard notes which of the asked processes are dead.
func (m *memory) heard(asked, dead []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(m.pulses, func(_ string, p pulse) bool { return now.After(p.until) })
	for _, i := range asked {
		m.pulses[i] = pulse{slices.Contains(dead, i), now.Add(deadFor)}
	}
}
