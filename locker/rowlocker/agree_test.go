package rowlocker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// Package memlocker writes the laws of package locker out a second time, with
// neither rows nor requests nor caches: each call changes one queue under one
// mutex. It tells what the kit must answer. Three processes do by chance what
// guards do, on both, in the same virtual time.
//
// The processes know the rows: who joins by a ticket is told of the owner that
// its process knows, and an owner that has not heard of a ticket passes it
// over.
func TestTheKitAnswersAsMemlockerDoes(t *testing.T) {
	for kind, s := range map[string]struct {
		clock bool
		rows  func(*memRows) hearing
	}{
		"ears":             {true, func(m *memRows) hearing { return memEars{m} }},
		"pulse":            {true, func(m *memRows) hearing { return memPulse{memEars{m}} }},
		"pulse no clock":   {false, func(m *memRows) hearing { return memPulse{memEars{m}} }},
		"tickets":          {true, func(m *memRows) hearing { return memTickets{memPulse{memEars{m}}} }},
		"tickets no clock": {false, func(m *memRows) hearing { return memTickets{memPulse{memEars{m}}} }},
		"members no clock": {false, func(m *memRows) hearing {
			m.members = true
			return memTickets{memPulse{memEars{m}}}
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			for seed := range uint64(testsize.Pick(40, 10)) {
				synctest.Test(t, func(t *testing.T) {
					mem := memlocker.New()
					d := &driver{
						T: t, r: rand.New(rand.NewPCG(seed, 1)),
						hands: map[string]*hand{}, places: map[string][2]locker.Place{},
						leaves: kind == "ears", late: !s.clock,
					}
					d.run(seed, []locker.Locker{mem, mem.Peer(), mem.Peer()}, kit(s.clock, s.rows))
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

type hearing interface {
	Rows
	Ears
}

// kit returns three lockers on one store.
func kit(clock bool, of func(*memRows) hearing) (ls []locker.Locker) {
	w := newWorld()
	for range 3 {
		ls = append(ls, New(of(&memRows{w: w, clock: clock})))
	}
	return ls
}

// side is one of the stores that are compared.
type side struct {
	ls   []locker.Locker
	last map[string]uint64 // by key: the last token

	mu    sync.Mutex // guards what follows
	heard []string   // by the processes, since the last step
	known map[string]bool
	asks  string // owner id of the claim that acquires, which has its answer
}

// process is a Waker of a side.
type process struct {
	lockerkit.Deaf

	s    *side
	name int
}

func (s *side) hear(format string, args ...any) {
	s.heard = append(s.heard, fmt.Sprintf(format, args...))
}

func (p process) Granted(key, owner string, o locker.Offer) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	known := p.s.known[owner]
	if !known {
		go p.Orphaned(key, owner) // ends with a request
	}
	if owner != p.s.asks {
		p.s.hear("%d: granted %s to %s, %d behind, known %v", p.name, key, owner, o.Waiting, known)
	}
}

func (p process) Orphaned(key, owner string) {
	_, _ = p.s.ls[p.name].Release(context.Background(), &locker.Claim{Key: key, Owner: owner}, locker.End{Queued: true})
}

func (p process) Recorded(key, owner, record string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if !p.s.known[owner] {
		return
	}
	p.s.hear("%d: %s finds %q beside %s", p.name, owner, record, key)
}

// hand is what the driver knows of a claim.
type hand struct {
	at     int // its process
	claims [2]*locker.Claim
	queued bool
	place  [2]locker.Place
	left   bool // its process does not look any more
}

// driver makes both sides do the same.
type driver struct {
	*testing.T
	leaves bool // a process may leave its claims in a queue
	late   bool // leases end late, so the guards renew all, and nobody asks for times
	sides  [2]*side
	r      *rand.Rand
	made   int
	hands  map[string]*hand           // by process and key
	places map[string][2]locker.Place // of claims that were given up
	story  []string
}

func (d *driver) run(seed uint64, model, kit []locker.Locker) {
	for i, ls := range [][]locker.Locker{model, kit} {
		s := &side{ls: ls, known: map[string]bool{}, last: map[string]uint64{}}
		d.sides[i] = s
		for n, l := range ls {
			if err := l.Open(process{s: s, name: n}); err != nil {
				d.Fatal(err)
			}
			defer func() { _ = l.Close(d.Context()) }()
		}
	}
	for range 80 {
		if d.step(); d.Failed() {
			d.Logf("seed %d:\n%s", seed, strings.Join(d.story, "\n"))
			return
		}
	}
}

// both calls f for each side, and compares what it says, what is heard and what
// is to be seen of the keys.
func (d *driver) both(what string, f func(i int, s *side) string) (said string) {
	var all [2]string
	time.Sleep(time.Millisecond) // no two steps have one place
	d.read()
	for i, s := range slices.Backward(d.sides[:]) { // the kit gathers renewals for some ms
		s.heard = nil
		said = f(i, s)
		synctest.Wait()
		slices.Sort(s.heard)
		all[i] = said + "\n  " + strings.Join(s.heard, "\n  ")
	}
	for i, s := range d.sides {
		for _, key := range keys {
			state, err := s.ls[0].Inspect(d.Context(), key)
			all[i] += fmt.Sprintf("\n  %s %v", d.look(state), err)
		}
	}
	d.story = append(d.story, fmt.Sprintf("%s: %s", what, all[0]))
	if all[0] != all[1] {
		d.Errorf("%s: memlocker says %s\nthe kit says %s", what, all[0], all[1])
	}
	return said
}

// read lets all processes of the kit know the rows and their tickets.
func (d *driver) read() {
	for _, l := range d.sides[1].ls {
		desk := l.(*Locker).desk
		rows, err := desk.rows.Load(d.Context(), keys)
		if err != nil {
			d.Fatal(err)
		}
		for _, r := range rows {
			desk.memory.keep(r)
		}
	}
}

// look is what two sides must see of a key alike.
func (d *driver) look(s locker.KeyState) string {
	if d.late {
		s.Remaining, s.Record.Remaining = 0, 0
		slices.SortFunc(s.Owners, func(a, b locker.Waiter) int { return strings.Compare(a.Owner, b.Owner) })
	}
	names := func(ws []locker.Waiter) (all []string) {
		for _, w := range ws {
			all = append(all, w.Owner)
		}
		return all
	}
	// A claim that was renewed may be said to linger still.
	return fmt.Sprintf("%s: %s %v for %v; %v; record %d for %v", s.Key, s.Owner, names(s.Owners), s.Remaining,
		names(s.Waiters), s.Record.Size, s.Record.Remaining)
}

var keys = []string{"a", "b"}

// word is what kind of error err is.
func word(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, locker.ErrLeaseLost):
		return "lost"
	}
	return err.Error()
}

func (d *driver) step() {
	at, key := d.r.IntN(3), keys[d.r.IntN(len(keys))]
	name := fmt.Sprint(at, key)
	h := d.hands[name]
	switch n := d.r.IntN(20); {
	case n < 4:
		d.pass(1)
	case n == 4 && d.r.IntN(4) == 0:
		d.pass(7)
	case n < 7 && d.hands[fmt.Sprint(at, keys[0])] == nil && d.hands[fmt.Sprint(at, keys[1])] == nil:
		d.acquireAll(at)
	case h == nil:
		h = d.claim(at, key, d.r.IntN(3) == 0)
		h.place = d.places[name] // the process has not got its turn yet
		d.acquire(name, h)
	case n < 10:
		d.renew(h)
	case n < 16:
		d.release(name, h)
	case n == 16 && d.r.IntN(2) == 0:
		d.giveUp(name, h)
	case n == 16:
		d.both("force release "+h.claims[0].Owner, func(i int, s *side) string {
			return word(s.ls[0].ForceRelease(d.Context(), key, h.claims[i].Owner))
		})
	case n < 18:
		d.mark(h)
	case n < 19:
		d.both("forget "+key, func(_ int, s *side) string {
			found, err := s.ls[at].Forget(d.Context(), key)
			return fmt.Sprint(found, word(err))
		})
	default:
		if h.left = d.leaves && d.r.IntN(3) == 0; h.left {
			d.know(h, false)
		}
	}
}

// claim makes a claim of any mode for a process.
func (d *driver) claim(at int, key string, recall bool) *hand {
	d.made++
	h := &hand{at: at}
	for i := range h.claims {
		h.claims[i] = &locker.Claim{Key: key, Owner: fmt.Sprintf("owner%017d", d.made), TTL: 3 * time.Second}
	}
	limit, lingers := []int{0, 1, 2, 3, locker.NoLimit}[d.r.IntN(5)], d.r.IntN(3) == 0
	for _, c := range h.claims {
		c.Limit, c.Recall = limit, recall
		if recall {
			c.Limit = 0
		}
		c.Lingers = limit == 0 && !recall && lingers
		c.Fencing = limit < locker.NoLimit && !recall
	}
	d.know(h, true)
	return h
}

func (d *driver) know(h *hand, known bool) {
	for i, s := range d.sides {
		s.known[h.claims[i].Owner] = known
	}
}

// records is the TTL of records.
func (d *driver) records() time.Duration {
	if d.late {
		return time.Hour
	}
	return 5 * time.Second
}

// token checks that a token is above those before it.
func (s *side) token(d *driver, key string, token uint64) string {
	if token == 0 {
		return "no token"
	}
	if token < s.last[key]+locker.FenceBlock {
		d.Errorf("token %d of %s behind %d", token, key, s.last[key])
	}
	s.last[key] = token
	return "token"
}

func (d *driver) acquire(name string, h *hand) {
	wait := d.r.IntN(4) > 0
	d.hands[name] = h
	said := d.both("acquire "+name+" as "+h.claims[0].Owner, func(i int, s *side) string {
		c := h.claims[i]
		s.asks = c.Owner
		a, err := s.ls[h.at].Acquire(d.Context(), c, locker.Try{Wait: wait, Queued: h.queued, Place: h.place[i]})
		h.place[i] = a.Place
		if d.late {
			a.Remaining = 0
		}
		return fmt.Sprint(a.Acquired, a.Queued, a.Record, a.Remaining, s.token(d, c.Key, a.Token), word(err))
	})
	acquired := strings.HasPrefix(said, "true")
	if h.queued = strings.HasPrefix(said, "false true"); !h.queued && !acquired {
		delete(d.hands, name)
		d.know(h, false)
	}
	if !h.queued {
		delete(d.places, name)
	}
}

// acquireAll lets a process acquire all keys together, or those in front.
func (d *driver) acquireAll(at int) {
	var hs []*hand
	for _, key := range keys {
		hs = append(hs, d.claim(at, key, false))
	}
	prefix, got := d.r.IntN(2) == 0, 0
	d.both(fmt.Sprint("acquire all ", at, prefix), func(i int, s *side) string {
		var cs []*locker.Claim
		for _, h := range hs {
			h.claims[i].Limit, h.claims[i].Lingers = 0, false
			cs = append(cs, h.claims[i])
		}
		as, held, err := s.ls[at].AcquireAll(d.Context(), cs, prefix)
		said := []string{fmt.Sprint(held, word(err))}
		for n, a := range as {
			said = append(said, fmt.Sprint(a.Acquired, s.token(d, cs[n].Key, a.Token)))
		}
		if got = held; held < len(cs) && !prefix {
			got = 0
		}
		return strings.Join(said, " ")
	})
	for i, h := range hs {
		if i < got {
			d.hands[fmt.Sprint(at, keys[i])] = h
		} else {
			d.know(h, false)
		}
	}
}

// pass lets guards look so often. All that happens is that far apart, so the
// kit writes down each look.
func (d *driver) pass(looks int) {
	for range looks {
		d.story = append(d.story, "time passes")
		time.Sleep(locker.LookEvery)
		for at := range 3 {
			for _, key := range keys {
				name := fmt.Sprint(at, key)
				switch h := d.hands[name]; {
				case h == nil || h.left || d.Failed():
				case h.queued:
					d.acquire(name, h)
				case d.late:
					d.renew(h)
				}
			}
		}
	}
}

func (d *driver) renew(h *hand) {
	d.both("renew "+h.claims[0].Owner, func(i int, s *side) (said string) {
		s.ls[h.at].Renew(d.Context(), h.claims[i:i+1], func(_ int, err error) { said = word(err) })
		return said
	})
}

func (d *driver) mark(h *hand) {
	value := fmt.Sprint("mark", d.made)
	if !h.claims[0].Recall {
		d.both("fence "+h.claims[0].Owner, func(i int, s *side) string {
			_, err := s.ls[h.at].Fence(d.Context(), h.claims[i])
			return word(err)
		})
		return
	}
	d.both("begin "+h.claims[0].Owner, func(i int, s *side) string {
		r := locker.Record{Value: value, TTL: d.records()}
		found, err := s.ls[h.at].Begin(d.Context(), h.claims[i], r)
		return fmt.Sprint(found, word(err))
	})
}

// release ends the hold of h, with a record or a claim that is queued behind
// the others, or neither.
func (d *driver) release(name string, h *hand) {
	var next *hand
	if d.r.IntN(2) == 0 {
		next = d.claim(h.at, h.claims[0].Key, false)
	}
	keeps, unmarks := h.claims[0].Recall && d.r.IntN(2) == 0, d.r.IntN(2) == 0
	value := fmt.Sprint("record", d.made)
	delete(d.hands, name)
	d.know(h, false)
	said := d.both("release "+h.claims[0].Owner, func(i int, s *side) string {
		c, l := h.claims[i], s.ls[h.at]
		e := locker.End{Unmark: unmarks}
		if next != nil {
			e.Next = next.claims[i]
		}
		if keeps {
			e.Record = locker.Record{Value: value, TTL: d.records()}
		}
		r, err := l.Release(d.Context(), c, e)
		if next != nil {
			next.place[i] = r.Place
		}
		if err != nil {
			return word(err)
		}
		return fmt.Sprint(r.Queued, r.Handed, r.Waiting)
	})
	if next == nil {
		return
	}
	if next.queued = strings.HasPrefix(said, "true"); next.queued {
		d.hands[name] = next
	} else {
		d.know(next, false)
	}
}

func (d *driver) giveUp(name string, h *hand) {
	d.places[name] = h.place
	delete(d.hands, name)
	d.know(h, false)
	d.both("give up "+h.claims[0].Owner, func(i int, s *side) string {
		_, _ = s.ls[h.at].Release(d.Context(), h.claims[i], locker.End{Queued: true})
		return ""
	})
}
