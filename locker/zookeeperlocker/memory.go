package zookeeperlocker

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// memory is what this process knows of nodes, so that it asks less often.
type memory struct {
	mu    sync.Mutex       // guards notes; never held across I/O or a callback
	notes map[string]*note // by key
	// verified is when a request was sent that is answered.
	verified atomic.Pointer[time.Time]
}

// note is what this process knows of a key.
type note struct {
	tickets []ticket
	newest  int64     // version of the row that tickets were forgotten for, at least
	listed  int64     // Pzxid of the node when tickets were compared with what stands below it
	look    time.Time // the last one
	crowded bool      // tickets have refused a write, and stood there when it was last foreseen

	row     rowlocker.Row   // without tickets
	changed <-chan zk.Event // nil: the row is not watched
	session int64           // with the watch
	since   time.Time
}

// ticket is one beside a row. Its data never change.
type ticket struct {
	rowlocker.Ticket

	own bool // of this process
}

const (
	// looksAgain: a key at which this process has looked so long ago is
	// watched.
	looksAgain = 4 * locker.LookEvery
	// watchFor is how long a watch that tells nothing is believed.
	watchFor = 10 * time.Second
	// verifiedFor is for how long memory.verified counts. The leases of others
	// are counted that much longer (Grain).
	verifiedFor = 20 * time.Millisecond
)

// note returns the note of a key, and locks the memory until unlock is called.
func (m *memory) note(key string) (n *note, unlock func()) {
	m.mu.Lock()
	if n = m.notes[key]; n == nil {
		lockerkit.MakeRoom(m.notes)
		n = &note{}
		m.notes[key] = n
	}
	return n, m.mu.Unlock
}

// verify has the server learn what the leader knows, unless it did a moment
// ago. Without that a server that lags could tell a claim that it waits, while
// others count its offer already. The events of watches have come then.
func (r *rows) verify(ctx context.Context, now time.Time) error {
	if v := r.verified.Load(); v != nil && now.Sub(*v) <= verifiedFor {
		return nil
	}
	err := r.sync(ctx, r.root)
	if err == nil {
		r.verified.Store(&now)
	}
	return err
}

// look notes a look at a key. It returns the row if that has a watch which has
// told nothing, and whether there was another look a moment ago.
func (m *memory) look(key string, session int64, now time.Time) (row rowlocker.Row, silent, again bool) {
	n, unlock := m.note(key)
	defer unlock()
	again, n.look = now.Sub(n.look) < looksAgain, now
	select {
	case <-n.changed:
		n.changed = nil
	default:
	}
	if n.changed == nil || n.session != session || now.Sub(n.since) > watchFor || n.row.Version < n.newest {
		return row, false, again
	}
	row = n.row
	row.Tickets = n.own()
	return row, true, true
}

// crowds notes whether there were tickets that would refuse a write.
func (m *memory) crowds(key string, crowded bool) {
	n, unlock := m.note(key)
	defer unlock()
	n.crowded = crowded
}

// crowded reports what crowds has noted.
func (m *memory) crowded(key string) bool {
	n, unlock := m.note(key)
	defer unlock()
	return n.crowded
}

// own returns own tickets.
func (n *note) own() (own []rowlocker.Ticket) {
	for _, t := range n.tickets {
		if t.own {
			own = append(own, t.Ticket)
		}
	}
	return own
}

// watches notes a row under a watch.
func (m *memory) watches(row rowlocker.Row, changed <-chan zk.Event, session int64, since time.Time) {
	n, unlock := m.note(row.Key)
	defer unlock()
	n.row, n.changed, n.session, n.since = row, changed, session, since
}

// merged forgets the tickets that a row names, and those that are older than
// the row if it has none beside it. merged reports whether own ones are left,
// and whether the row is old: tickets that stand beside it may be forgotten
// then, because a newer row names them.
func (m *memory) merged(key string, value []byte, version int64, none bool) (own, old bool) {
	n, unlock := m.note(key)
	defer unlock()
	if version < n.newest {
		return false, true
	}
	n.newest = version
	n.tickets = slices.DeleteFunc(n.tickets, func(t ticket) bool {
		return bytes.Contains(value, []byte(t.Name)) || none && t.Version < version
	})
	return slices.ContainsFunc(n.tickets, func(t ticket) bool { return t.own }), false
}

// ours forgets the tickets up to a version that are not among the names below a
// row, whose node has that Pzxid. ours returns own ones, and whether the row is
// old.
func (m *memory) ours(row *rowlocker.Row, names []string, pzxid int64) (own []rowlocker.Ticket, old bool) {
	n, unlock := m.note(row.Key)
	defer unlock()
	n.tickets = slices.DeleteFunc(n.tickets, func(t ticket) bool {
		return t.Version < max(row.Version, pzxid) && !slices.Contains(names, ticketPrefix+t.Name)
	})
	n.listed = pzxid
	return n.own(), row.Version < n.newest
}

// stay returns own tickets beside a row if nothing has come or gone below its
// node since they were compared with that. The row is not old.
func (m *memory) stay(row *rowlocker.Row, pzxid int64) (own []rowlocker.Ticket, ok bool) {
	n, unlock := m.note(row.Key)
	defer unlock()
	return n.own(), n.listed == pzxid && row.Version >= n.newest
}

// knows notes a ticket.
func (m *memory) knows(key string, t rowlocker.Ticket, own bool) {
	n, unlock := m.note(key)
	defer unlock()
	n.tickets = append(n.tickets, ticket{t, own})
	if own {
		n.look = time.Now()
	}
}

func (m *memory) known(key, name string) (rowlocker.Ticket, bool) {
	n, unlock := m.note(key)
	defer unlock()
	i := slices.IndexFunc(n.tickets, func(t ticket) bool { return t.Name == name })
	if i < 0 {
		return rowlocker.Ticket{}, false
	}
	return n.tickets[i].Ticket, true
}

// written forgets what a write has made old that gave a row that version.
func (m *memory) written(row *rowlocker.Row, version int64) {
	n, unlock := m.note(row.Key)
	defer unlock()
	n.changed, n.newest = nil, max(n.newest, version)
	n.tickets = slices.DeleteFunc(n.tickets, func(t ticket) bool {
		return slices.ContainsFunc(row.Drop, func(d rowlocker.Ticket) bool { return d.Name == t.Name })
	})
}
