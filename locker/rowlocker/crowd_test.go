package rowlocker

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/rowtest"
	"github.com/go-lockguard/guard/locker"
)

func sharing(owner string, limit int, wait bool) *request {
	q := asks(owner, wait)
	q.limit, q.fencing = limit, limit < locker.NoLimit
	return q
}

func releases(owner string) *request { return &request{verb: release, key: "k", owner: owner} }

func TestADeadClaimInFrontKeepsACrowdShutForAWhile(t *testing.T) {
	r := at(row{}, 100)
	r.apply(sharing("a", locker.NoLimit, false))
	r.apply(sharing("dead", 1, true))
	for second, want := range map[float64]bool{100.95: false, 101.05: true} {
		r := at(r, second)
		r.owners = slices.Clone(r.owners)
		if res := r.apply(sharing("b", locker.NoLimit, true)); res.ok != want {
			t.Errorf("%v s after its only look: a reader gets in: %v, want %v", second-100, res.ok, want)
		}
	}
	early := sharing("b", locker.NoLimit, true)
	early.try.Place = 1
	if res := r.apply(early); !res.ok {
		t.Errorf("a claim with an earlier place: %+v, want it not to stay behind", res)
	}
}

func TestAKeyThatNobodyOwnsIsAnybodys(t *testing.T) {
	r := at(row{}, 100)
	r.apply(sharing("a", locker.NoLimit, false))
	r.apply(sharing("first", 1, true))
	r.owners[0].Ends = 100e6 + 100e3
	r = at(r, 100.2)
	if res := r.apply(sharing("b", locker.NoLimit, true)); !res.ok {
		t.Errorf("%+v, want law 7 to let b barge", res)
	}
}

func TestAWriteLetsInNoMoreThanARequestHolds(t *testing.T) {
	r := at(row{}, 100)
	r.apply(asks("a", false))
	for i := range heirsMax + 3 {
		r.apply(sharing(strconv.Itoa(i), locker.NoLimit, true))
	}
	r.apply(releases("a"))
	if len(r.owners) != heirsMax || len(r.queue) != 3 {
		t.Fatalf("%d got the key, and %d wait", len(r.owners), len(r.queue))
	}
	r = at(r, 100.1)
	if res := r.apply(sharing(strconv.Itoa(heirsMax+2), locker.NoLimit, true)); !res.ok || len(r.queue) > 0 {
		t.Errorf("%+v, and %d wait; want a look to let them in", res, len(r.queue))
	}
}

// Planted: each claim that gets the key by a write has the token of the first.
func TestPermitsThatOneWriteGrantsHaveTokensOfTheirOwn(t *testing.T) {
	for _, traits := range []*Traits{withClock, noClock} {
		r := &row{blocks: !traits.Clock, now: 100e6}
		write := func(version int64) {
			src := encode("k", r, traits)[0]
			src.Version, src.Written, src.Now = version, 100e6, 100e6
			r = decode(&src, traits, newMemory(), 100e6)
		}
		r.apply(asks("a", false))
		write(7)
		last := r.owners[0].Token
		for _, owner := range []string{"b", "c", "d"} {
			r.apply(sharing(owner, 4, true))
		}
		r.apply(releases("a"))
		r.apply(sharing("e", 4, false))
		write(8)
		if len(r.owners) != 4 {
			t.Fatalf("the owners are %+v, want b, c, d, and e, which came in the same step", r.owners)
		}
		for _, own := range r.owners {
			if own.Token < last+locker.FenceBlock {
				t.Errorf("clock %v: the token of %s is %d, after %d", traits.Clock, own.Owner, own.Token, last)
			}
			last = own.Token
		}
	}
}

// A ticket of a claim that waits goes with the write of the row, so it does not
// stand beside the row that a message brings.
func TestAMessageBringsBackNoClaimThatHasGone(t *testing.T) {
	l := New(&memRows{w: newWorld(), members: true})
	waits, shares := Ticket{Name: "gone", Version: 2}, Ticket{Name: member + "mine", Version: 3}
	l.desk.memory.keep(Row{Key: "k", Version: 1, Value: []byte("o/{}"), Tickets: []Ticket{waits, shares}})
	l.lookout.heard(Row{Key: "k", Version: 4, Value: []byte("/{}")})
	if left := l.desk.memory.left("k", nil); len(left) != 1 || left[0].Name != shares.Name {
		t.Errorf("beside the row are %+v, want the share of this process only", left)
	}
}

// A share that came beside an open row told nobody of it.
func TestAReleaseOfAShareKnowsOfThoseBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, _ := peers(t, 2, func(m *memRows) *Locker {
			m.members = true
			return New(memTickets{memPulse{memEars{m}}})
		})
		a, b, next := wants('a', locker.NoLimit), wants('b', locker.NoLimit), wants('n', 1)
		take(t, ls[0], a)
		take(t, ls[1], b)
		r, err := ls[0].Release(t.Context(), a, locker.End{Next: next})
		if err != nil || !r.Handed || !r.Queued {
			t.Errorf("%+v, %v, want next to be queued behind b", r, err)
		}
	})
}

// A claim that waits has closed the row. The tickets of the shares go with the
// write that takes one of them, which the message about it does not say.
func TestAShareThatWasTakenByForceDoesNotComeBack(t *testing.T) {
	for _, clock := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ls, es := peers(t, 4, func(m *memRows) *Locker {
				m.members, m.clock = true, clock
				return New(memTickets{memPulse{memEars{m}}})
			})
			first, alone := wants('f', locker.NoLimit), wants('n', 1)
			shares := []*locker.Claim{wants('a', locker.NoLimit), wants('b', locker.NoLimit)}
			take(t, ls[2], first) // whose share stands in the row
			for i, c := range shares {
				take(t, ls[i], c)
			}
			if a, err := ls[3].Acquire(t.Context(), alone, locker.Try{Wait: true}); err != nil || !a.Queued {
				t.Fatalf("%+v, %v", a, err)
			}
			if err := ls[3].ForceRelease(t.Context(), "k", shares[0].Owner); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := es[0].told(); len(got) != 1 {
				t.Errorf("clock %v: its guard hears %q", clock, got)
			}
			for i, c := range shares {
				ls[i].Renew(t.Context(), []*locker.Claim{c}, func(_ int, err error) {
					if lost := errors.Is(err, locker.ErrLeaseLost); lost != (i == 0) {
						t.Errorf("clock %v: a renewal of share %d: %v", clock, i, err)
					}
				})
			}
			s, err := ls[3].Inspect(t.Context(), "k")
			if err != nil || len(s.Owners) != 2 {
				t.Errorf("clock %v: %+v, %v, want the two other owners", clock, s, err)
			}
		})
	}
}

// A process that has read a share beside the row does not hear of its renewals.
func TestAShareStaysThoughAnotherProcessHasNotSeenItRenewed(t *testing.T) {
	for _, clock := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ls, _ := peers(t, 2, func(m *memRows) *Locker {
				m.members, m.clock = true, clock
				return New(memTickets{memPulse{memEars{m}}})
			})
			shares := []*locker.Claim{wants('a', locker.NoLimit), wants('b', locker.NoLimit)}
			for i, c := range shares {
				take(t, ls[i], c)
			}
			alone, err := ls[0].Acquire(t.Context(), wants('n', 1), locker.Try{})
			if err != nil || alone.Acquired {
				t.Fatalf("%+v, %v", alone, err)
			}
			for range 10 {
				time.Sleep(shares[0].TTL / 3)
				for i, c := range shares {
					ls[i].Renew(t.Context(), []*locker.Claim{c}, func(_ int, err error) {
						if err != nil {
							t.Errorf("clock %v: a renewal of share %d: %v", clock, i, err)
						}
					})
				}
			}
		})
	}
}

// The ticket of a share that has ended may stay beside an open row. Its lease
// does not begin again because other stamps of the row are forgotten.
func TestAShareThatHasEndedDoesNotBeginAgain(t *testing.T) {
	m, traits := newMemory(), &Traits{Members: true}
	src := Row{Key: "k", Version: 5, Value: []byte("!/{}"), Tickets: []Ticket{
		{Name: member + "a", Version: 6, Value: []byte(`{"o":"a","l":999999,"d":10000000,"h":{}}`)},
	}}
	for stamp := range int64(20) {
		m.first("k", 100+stamp, 1e6)
	}
	if r := decode(&src, traits, m, 1e6); r.free() {
		t.Fatal("nobody shares the key")
	}
	ended := decode(&src, traits, m, 12e6)
	m.tidy("k", ended)
	if r := decode(&src, traits, m, 13e6); !ended.free() || !r.free() {
		t.Errorf("%+v, and later %+v, want nobody", ended.owners, r.owners)
	}
}

func TestATicketIsFoundOfWhichNoOwnerHears(t *testing.T) {
	for _, clock := range []bool{true, false} {
		for _, test := range []func(t *testing.T, process func() locker.Locker){
			rowtest.LatecomersGetTheKey, rowtest.OwnersHear,
		} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				test(t, func() locker.Locker {
					return New(memTickets{memPulse{memEars{&memRows{w: w, clock: clock, members: true}}}})
				})
			})
		}
	}
}

// Three processes pass the key on by tickets, so that each owner knows one that
// is newer than the ticket of which nobody knows.
func TestAnOlderTicketIsFoundToo(t *testing.T) {
	for _, clock := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ls, _ := peers(t, 4, func(m *memRows) *Locker {
				m.members, m.clock = true, clock
				return New(memTickets{memPulse{memEars{m}}})
			})
			acquire := func(l *Locker, c *locker.Claim, try locker.Try) locker.Answer {
				a, err := l.Acquire(t.Context(), c, try)
				if synctest.Wait(); err != nil {
					t.Fatal(err)
				}
				return a
			}
			var owns []*locker.Claim // in the order in which they get the key
			joins := func(l *Locker) {
				c := wants('c', 1)
				c.Owner = lockerkit.NewID()
				owns = append(owns, c)
				acquire(l, c, waits)
			}
			for _, l := range ls[:3] {
				joins(l)
			}
			late := wants('l', 1)
			acquire(ls[3], late, locker.Try{}) // it knows the row from now on
			for turn := range 100 {
				l := ls[turn%3]
				if r, err := l.Release(t.Context(), owns[turn], locker.End{}); err != nil || !r.Handed {
					t.Fatalf("turn %d: %+v, %v, want the key to be handed over", turn, r, err)
				}
				if turn == 0 {
					acquire(ls[3], late, waits)
				}
				joins(l)
				if acquire(ls[3], late, looks).Acquired {
					return
				}
			}
			t.Errorf("clock %v: a claim waits while the key is handed over 100 times", clock)
		})
	}
}
