package rowlocker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
)

// world is a store in memory.
type world struct {
	mu      sync.Mutex
	version int64
	ticket  int64
	rows    map[string]Row
	ears    map[string]chan Row
	pulses  map[string]bool
	gone    map[string]time.Time
	until   map[string]time.Time // of shares beside rows, by key and name
}

func newWorld() *world {
	return &world{
		rows: map[string]Row{}, ears: map[string]chan Row{}, pulses: map[string]bool{}, gone: map[string]time.Time{},
		until: map[string]time.Time{},
	}
}

// breaks ends the messages to an instance.
func (w *world) breaks(instance string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ears[instance])
	delete(w.ears, instance)
}

// memRows are its Rows for one locker, with what the test wants of a store.
type memRows struct {
	w       *world
	clock   bool
	members bool
	single  bool
	batch   int
}

func (m *memRows) Traits() Traits {
	return Traits{
		Name: "mem", Clock: m.clock, Blind: true, Members: m.members, Single: m.single, Workers: 2,
		Batch: max(m.batch, 8), Limits: locker.Limits{Late: locker.LookEvery, LateForOthers: time.Second},
	}
}
func (m *memRows) Open() error                                                     { return nil }
func (m *memRows) Close()                                                          {}
func (m *memRows) Check(_ context.Context, _, _ time.Duration, failed error) error { return failed }

func (m *memRows) get(key string) Row {
	r := m.w.rows[key]
	if !m.clock && r.Version > 0 && time.Now().After(m.w.gone[key]) { // as etcd's leases do
		r = Row{Tickets: r.Tickets}
		m.w.rows[key] = r
	}
	r.Tickets = slices.DeleteFunc(slices.Clone(r.Tickets), func(t Ticket) bool {
		until, ok := m.w.until[key+t.Name]
		return ok && time.Now().After(until)
	})
	r.Key = key
	r.Tickets = slices.Clone(r.Tickets)
	if m.clock {
		r.Now = time.Now().UnixMicro()
	}
	return r
}

func (m *memRows) Load(_ context.Context, keys []string) (out []Row, err error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, k := range keys {
		out = append(out, m.get(k))
	}
	return out, nil
}

func (m *memRows) Scan(_ context.Context, after string, n int) (out []Row, err error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	var keys []string
	for k, r := range m.w.rows {
		if k > after && r.Version > 0 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys[:min(n, len(keys))] {
		out = append(out, m.get(k))
	}
	return out, nil
}

func (m *memRows) Swap(_ context.Context, cs []*Change) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, c := range cs {
		m.swap(c)
	}
	return nil
}

func (m *memRows) swap(c *Change) {
	ok := true
	if m.single && len(c.Rows) > 1 {
		panic("a Change of several rows")
	}
	c.Current, c.Dead = nil, nil
	if j := c.Join; j != nil {
		r := m.get(j.Key)
		open := strings.HasPrefix(string(r.Value), "!/")
		at := slices.IndexFunc(r.Tickets, func(t Ticket) bool { return t.Name == j.Name })
		if len(r.Value) == 0 || r.Value[0] == '/' || open != j.Open || j.Held && at < 0 {
			c.Current = []Row{r}
			return
		}
		m.w.version++
		j.Version, c.Version, c.Done = m.w.version, m.w.version, true
		if m.clock { // on the scale of places
			j.Version = max(time.Now().UnixMicro(), m.w.ticket+1)
			m.w.ticket = j.Version
			c.Version = j.Version
		}
		t := j.Ticket
		if j.Open && at >= 0 {
			r.Tickets = slices.Delete(r.Tickets, at, at+1)
		}
		if j.Leave {
			m.w.rows[j.Key] = r
			return
		}
		if j.Open {
			m.w.until[j.Key+j.Name] = time.Now().Add(j.KeepFor + time.Second/2)
		}
		r.Tickets = append(r.Tickets, t)
		m.w.rows[j.Key] = r
		m.send(j.To, Row{Key: j.Key, Tickets: []Ticket{t}})
		return
	}
	for _, row := range c.Rows {
		r := m.get(row.Key)
		c.Current = append(c.Current, r)
		ok = ok && (row.Version == Any || r.Version == row.Version)
		if row.Alone {
			ok = ok && !slices.ContainsFunc(r.Tickets, func(t Ticket) bool { return t.Version > row.Beside })
		}
	}
	for _, t := range c.Tell {
		if t.Must && !m.w.pulses[t.To] {
			c.Dead, ok = append(c.Dead, t.To), false
		}
	}
	if c.Done = ok; !ok {
		return
	}
	m.w.version++
	c.Version = m.w.version
	if m.clock {
		c.Written = time.Now().UnixMicro()
	}
	for i, row := range c.Rows {
		left := c.Current[i].Tickets
		for _, d := range row.Drop {
			left = slices.DeleteFunc(left, func(t Ticket) bool { return t.Name == d.Name })
		}
		if row.Value == nil && len(left) == 0 {
			delete(m.w.rows, row.Key)
			continue
		}
		w := Row{Key: row.Key, Tickets: left}
		if row.Value != nil {
			w.Version, w.Value, w.Written = c.Version, row.Value, c.Written
		}
		m.w.rows[row.Key] = w
		m.w.gone[row.Key] = time.Now().Add(min(row.KeepFor, time.Hour*24*365) + time.Second/2)
	}
	for _, t := range c.Tell {
		row := c.Rows[t.Row]
		m.send(t.To, Row{Key: row.Key, Version: c.Version, Written: c.Written, Value: row.Value})
	}
}

func (m *memRows) send(to string, r Row) {
	r.Tickets = slices.Clone(r.Tickets)
	if r.Version > 0 {
		r.Tickets = nil
	}
	if ch := m.w.ears[to]; ch != nil {
		ch <- r
	}
}

// memEars hears.
type memEars struct{ *memRows }

func (m memEars) Listen(ctx context.Context, instance string, hear func(Row), awake func()) {
	ch := make(chan Row, 10_000)
	m.w.mu.Lock()
	m.w.ears[instance] = ch
	m.w.mu.Unlock()
	defer func() {
		m.w.mu.Lock()
		defer m.w.mu.Unlock()
		delete(m.w.ears, instance)
	}()
	awake()
	for {
		select {
		case r, ok := <-ch:
			if !ok {
				return
			}
			hear(r)
		case <-ctx.Done():
			return
		}
	}
}

// memDeaf never hears.
type memDeaf struct{ *memRows }

func (memDeaf) Listen(context.Context, string, func(Row), func()) {}

// unheard is a Locker on memDeaf, where no key can linger.
type unheard struct{ *Locker }

func (u unheard) Capabilities() locker.Capabilities {
	can := u.Locker.Capabilities()
	can.Lingers = false
	return can
}

// memPulse knows who is alive.
type memPulse struct{ memEars }

func (m memPulse) Beat(_ context.Context, instance string) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.pulses[instance] = true
	return nil
}

func (m memPulse) Dead(_ context.Context, instances []string) (dead []string, err error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, i := range instances {
		if !m.w.pulses[i] {
			dead = append(dead, i)
		}
	}
	return dead, nil
}

// memTickets has tickets too.
type memTickets struct{ memPulse }

func (m memTickets) Traits() Traits {
	t := m.memPulse.Traits()
	t.Tickets = true
	return t
}

func TestTheKitKeepsItsPromisesOnEveryKindOfStore(t *testing.T) {
	for _, clock := range []bool{true, false} {
		for _, kind := range []string{"polled", "deaf", "ears", "single", "pulse", "tickets", "members"} {
			t.Run(strings.TrimSpace(fmt.Sprintf("%s clock %v", kind, clock)), func(t *testing.T) {
				lockertest.RunVirtual(t, func(*testing.T) (a, b locker.Locker) {
					w := newWorld()
					one := func() locker.Locker {
						m := &memRows{w: w, clock: clock, members: kind == "members", single: kind == "single"}
						switch kind {
						case "polled":
							return New(m)
						case "deaf":
							return unheard{New(memDeaf{m})}
						case "ears", "single":
							return New(memEars{m})
						case "pulse":
							return New(memPulse{memEars{m}})
						}
						return New(memTickets{memPulse{memEars{m}}})
					}
					return one(), one()
				})
			})
		}
	}
}
