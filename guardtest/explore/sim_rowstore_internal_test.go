package explore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// rowKind is what a store of rows has. Each real store is one, and the others
// are there so that each two of these come together, and apart.
type rowKind struct {
	name                                   string
	clock, blind, single, tells            bool // tells: Vacant and Forgot
	ears, deaf, pulse, tickets, membership bool // deaf: Listen returns at once
}

var rowKinds = []rowKind{
	{name: "etcd", blind: true, tells: true, ears: true, pulse: true, tickets: true, membership: true},
	{name: "postgres", clock: true, blind: true, ears: true, pulse: true, tickets: true, membership: true},
	{name: "zookeeper", blind: true, ears: true, pulse: true, tickets: true},
	{name: "nats", blind: true, single: true, ears: true},
	{name: "ears", clock: true, blind: true, single: true, ears: true},
	{name: "sql", clock: true}, // MySQL and SQLite
	{name: "bare", tells: true},
	{name: "pooler", clock: true, blind: true, ears: true, deaf: true, pulse: true, tickets: true},
}

// polls reports whether no messages come.
func (k *rowKind) polls() bool { return k.deaf || !k.ears }

const (
	pulseLife = 3 * time.Second
	// lateForOthers is by how much a store without a clock is late with what it
	// says by itself.
	lateForOthers = 500 * ms
)

// rowStore is rows in memory, for all processes of a run. Its methods are safe
// for concurrent use.
type rowStore struct {
	kind *rowKind

	mu      sync.Mutex    // guards the fields below
	skew    time.Duration // of the clock
	version int64
	place   int64 // of the last ticket, if there is a clock
	rows    map[string]*rowEntry
	ears    map[string]chan rowlocker.Row // by instance
	pulses  map[string]time.Time          // until when, by instance and by process
	undo    func()                        // takes back the last write; nil: that is durable
}

// rowEntry is a row with its tickets.
type rowEntry struct {
	rowlocker.Row
	held, kept, recorded time.Time // until when
	tickets              []rowTicket

	was    rowlocker.Row // what others than by read until then
	by     string
	hidden time.Time
}

type rowTicket struct {
	rowlocker.Ticket
	of   string // process
	ends time.Time
	open bool
}

func newRowStore(k *rowKind) *rowStore {
	return &rowStore{
		kind: k, rows: make(map[string]*rowEntry), ears: make(map[string]chan rowlocker.Row),
		pulses: make(map[string]time.Time),
	}
}

// has reports whether there is something until then. Without a clock the store
// is late to see that it is over.
func (s *rowStore) has(until time.Time) bool {
	if !s.kind.clock {
		until = until.Add(lateForOthers)
	}
	return s.now().Before(until)
}

// now is the time by the store's clock, by which all ends but what others do
// not see. It needs mu.
func (s *rowStore) now() time.Time { return time.Now().Add(s.skew) }

// setClock sets the clock forward by d, or back.
func (s *rowStore) setClock(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew += d
}

// get returns what stands at key now. It needs mu.
func (s *rowStore) get(key string) *rowEntry {
	e := s.rows[key]
	if e == nil {
		e = &rowEntry{Row: rowlocker.Row{Key: key}}
		s.rows[key] = e
	}
	if e.Version > 0 && !s.has(e.kept) {
		e.Row = rowlocker.Row{Key: key}
	}
	e.Vacant = e.Version > 0 && s.kind.tells && !s.has(e.held)
	e.Forgot = e.Version > 0 && s.kind.tells && !s.has(e.recorded)
	e.tickets = slices.DeleteFunc(e.tickets, func(t rowTicket) bool {
		if s.kind.pulse && !t.open {
			return !s.beats(t.of)
		}
		return !s.has(t.ends)
	})
	e.Tickets = nil
	for _, t := range e.tickets {
		e.Tickets = append(e.Tickets, t.Ticket)
	}
	if s.kind.clock {
		e.Now = s.now().UnixMicro()
	}
	return e
}

// read returns the row as a process may read it.
func (s *rowStore) read(key, process string) rowlocker.Row {
	e := s.get(key)
	if e.by != process && time.Now().Before(e.hidden) {
		was := e.was
		was.Now = e.Now
		return was
	}
	return e.Row
}

func (s *rowStore) load(process string, keys []string) (rows []rowlocker.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		rows = append(rows, s.read(key, process))
	}
	return rows
}

func (s *rowStore) scan(process, after string, n int) (rows []rowlocker.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.rows)) {
		if r := s.read(key, process); key > after && r.Version > 0 && len(rows) < n {
			rows = append(rows, r)
		}
	}
	return rows
}

// swap carries out c. Others read what was there before for as long as unseen,
// and hear of it then.
func (s *rowStore) swap(process string, c *rowlocker.Change, unseen time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Current, c.Dead, c.Done = nil, nil, false
	if !s.allows(c) {
		for _, r := range c.Current { // who is refused by a row reads it from then on
			s.rows[r.Key].hidden = time.Time{}
		}
		return
	}
	s.version++
	c.Done, c.Version = true, s.version
	if s.kind.clock {
		c.Written = s.now().UnixMicro()
	}
	before := make(map[string]rowEntry)
	for _, r := range c.Current {
		e := *s.rows[r.Key]
		e.tickets = slices.Clone(e.tickets)
		before[r.Key] = e
	}
	if c.Join != nil {
		s.join(process, c)
	}
	for _, row := range c.Rows {
		s.write(process, c, row, unseen)
	}
	if s.undo = nil; c.Loose {
		s.undo = func() {
			for key, e := range before {
				s.rows[key] = &e
			}
		}
	}
	c.Current = nil
	if unseen == 0 {
		s.tell(c)
		return
	}
	time.AfterFunc(limits.Apart(unseen), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tell(c)
	})
}

// allows says whether c may be done, and sets what may refuse it.
func (s *rowStore) allows(c *rowlocker.Change) (ok bool) {
	if j := c.Join; j != nil {
		r := s.get(j.Key).Row
		c.Current = []rowlocker.Row{r}
		open := strings.HasPrefix(string(r.Value), "!/")
		there := slices.ContainsFunc(r.Tickets, func(t rowlocker.Ticket) bool { return t.Name == j.Name })
		return len(r.Value) > 0 && r.Value[0] != '/' && open == j.Open && (there || !j.Held)
	}
	ok = true
	for _, row := range c.Rows {
		r := s.get(row.Key).Row
		c.Current = append(c.Current, r)
		beside := slices.ContainsFunc(r.Tickets, func(t rowlocker.Ticket) bool { return t.Version > row.Beside })
		ok = ok && (row.Version == rowlocker.Any || row.Version == r.Version) && (!row.Alone || !beside)
	}
	for _, m := range c.Tell {
		if m.Must && !s.beats(m.To) {
			c.Dead, ok = append(c.Dead, m.To), false
		}
	}
	return ok
}

func (s *rowStore) join(process string, c *rowlocker.Change) {
	j, e := c.Join, s.rows[c.Join.Key]
	if s.kind.clock { // on the scale of places
		s.place = max(s.now().UnixMicro(), s.place+1)
		c.Version = s.place
	}
	e.tickets = slices.DeleteFunc(e.tickets, func(t rowTicket) bool { return t.Name == j.Name && j.Open })
	waits := func(t rowTicket) bool { return !strings.HasPrefix(t.Name, "m.") }
	if s.kind.clock {
		if j.To = e.Unaware; slices.ContainsFunc(e.tickets, waits) {
			j.To = "" // the owner knows that others wait
		}
	}
	if !j.Leave {
		j.Version = c.Version
		e.tickets = append(e.tickets, rowTicket{j.Ticket, process, s.now().Add(j.KeepFor), j.Open})
	}
}

func (s *rowStore) write(process string, c *rowlocker.Change, row rowlocker.Row, unseen time.Duration) {
	e, now := s.rows[row.Key], s.now()
	was := e.Row
	e.tickets = slices.DeleteFunc(e.tickets, func(t rowTicket) bool {
		return slices.ContainsFunc(row.Drop, func(d rowlocker.Ticket) bool { return t.Name == d.Name })
	})
	e.Row = rowlocker.Row{Key: row.Key}
	if row.Value != nil {
		if row.KeepFor <= 0 {
			panic("a row that is kept for no time")
		}
		e.Row = rowlocker.Row{
			Key: row.Key, Version: c.Version, Written: c.Written, Value: row.Value, Unaware: row.Unaware,
		}
		e.held, e.kept = now.Add(row.HeldFor), now.Add(min(row.KeepFor, 100*time.Hour))
		if row.RecordFor > 0 {
			e.recorded = now.Add(row.RecordFor)
		}
	}
	e.hidden = time.Time{} // nobody is behind what he has written
	if unseen > 0 {
		e.was, e.by, e.hidden = was, process, time.Now().Add(unseen)
	}
}

// tell sends the messages of c. It needs mu.
func (s *rowStore) tell(c *rowlocker.Change) {
	send := func(to string, r rowlocker.Row) {
		if ear := s.ears[to]; ear != nil {
			ear <- r // which has room
		}
	}
	if j := c.Join; j != nil {
		send(j.To, rowlocker.Row{Key: j.Key, Tickets: []rowlocker.Ticket{j.Ticket}})
	}
	for _, m := range c.Tell {
		row := c.Rows[m.Row]
		send(m.To, rowlocker.Row{Key: row.Key, Version: c.Version, Written: c.Written, Value: row.Value})
	}
}

// crash loses the last write, if that was loose.
func (s *rowStore) crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.undo != nil {
		s.undo()
		s.undo = nil
	}
}

// left implements simNet.
func (s *rowStore) left(bool) (left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.rows)) {
		e := s.get(key)
		empty := string(e.Value) == "!/{}" // whoever wrote it may not have known that the others have gone
		if e.Version > 0 && s.now().Before(e.held) && !empty {
			left = append(left, fmt.Sprintf("%s is owned for %v more: %s", key, e.held.Sub(s.now()), e.Value))
		} else if len(e.tickets) > 0 {
			left = append(left, fmt.Sprintf("%s has tickets: %d", key, len(e.tickets)))
		}
	}
	return left
}

func (s *rowStore) listen(ctx context.Context, instance string, hear func(rowlocker.Row), awake func()) {
	ear := make(chan rowlocker.Row, 100)
	s.mu.Lock()
	s.ears[instance] = ear
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ears[instance] == ear {
			delete(s.ears, instance)
		}
	}()
	for awake(); ctx.Err() == nil; {
		select {
		case r := <-ear:
			hear(r)
		case <-ctx.Done():
		}
	}
}

func (s *rowStore) beat(process, instance string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulses[instance] = time.Now().Add(pulseLife)
	s.pulses[process] = s.pulses[instance]
}

func (s *rowStore) dead(instances []string) (dead []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(instances), s.beats)
}

// beats reports whether an instance or a process has a pulse, by a clock that
// nobody sets. It needs mu.
func (s *rowStore) beats(who string) bool { return time.Now().Before(s.pulses[who]) }

func (k *rowKind) traits() rowlocker.Traits {
	t := rowlocker.Traits{
		Name: k.name, Clock: k.clock, Blind: k.blind, Single: k.single, Tickets: k.tickets, Members: k.membership,
		Workers: 2, Batch: 8,
	}
	if k.clock {
		t.Grain = time.Microsecond
	} else {
		t.Limits = locker.Limits{Late: locker.LookEvery, LateForOthers: lateForOthers}
	}
	return t
}
