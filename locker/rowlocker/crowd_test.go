package rowlocker

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

func sharing(owner string, limit int, wait bool) *request {
	q := asks(owner, wait)
	q.limit, q.fencing = limit, limit < locker.NoLimit
	return q
}

// inside names the owners of a row, and behind those who wait.
func inside(r *row) string {
	var in, out []string
	for _, s := range r.owners {
		in = append(in, s.Owner)
	}
	for _, w := range r.queue {
		out = append(out, w.Owner)
	}
	return strings.Join(in, " ") + " | " + strings.Join(out, " ")
}

func releases(owner string) *request { return &request{verb: release, key: "k", owner: owner} }

func TestNoOwnerHasMoreBesideItThanItsLimit(t *testing.T) {
	const all = locker.NoLimit
	for want, limits := range map[string][]int{
		"a b c |":     {all, all, all},
		"a b | c":     {2, 2, 2},
		"a b | c ":    {2, all, all}, // the first allows one beside it
		"a b | c  ":   {all, 2, all},
		"a | b c":     {1, all, 2},
		"a b | c   ":  {all, all, 1},
		"a | b c ":    {all, 1, all}, // b waits in front of c
		"a b | c    ": {3, 3, 2},
	} {
		r := at(row{}, 100)
		for i, limit := range limits {
			r.apply(sharing(string(rune('a'+i)), limit, true))
		}
		if got := inside(&r); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("limits %v: %q, want %q", limits, got, want)
		}
	}
}

// line returns a row that a owns, alone, from second 100 on. Behind it are two
// readers, a writer and a reader.
func line(t *testing.T) row {
	t.Helper()
	r := at(row{}, 100)
	r.apply(sharing("a", 1, false))
	for i, limit := range []int{locker.NoLimit, locker.NoLimit, 1, locker.NoLimit} {
		r.apply(sharing(string(rune('b'+i)), limit, true))
	}
	if got := inside(&r); got != "a | b c d e" {
		t.Fatalf("%q", got)
	}
	return r
}

func TestARunGetsTheKeyTogether(t *testing.T) {
	r := at(line(t), 100.1)
	res := r.apply(releases("a"))
	if got := inside(&r); got != "b c | d e" || !res.handed || sole(&r) != "" {
		t.Fatalf("%q, %+v, want two readers to get the key", got, res)
	}
	if res := r.apply(releases("b")); !res.ok || inside(&r) != "c | d e" {
		t.Errorf("after b: %q", inside(&r))
	}
	if res := r.apply(sharing("f", locker.NoLimit, true)); res.ok {
		t.Error("f got the key past a writer that waits")
	}
	if res := r.apply(releases("c")); !res.ok || inside(&r) != "d | e f" {
		t.Errorf("after c: %q", inside(&r))
	}
	if res := r.apply(releases("d")); !res.ok || inside(&r) != "e f |" && inside(&r) != "e f | " {
		t.Errorf("after d: %q", inside(&r))
	}
}

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

func TestEachShareEndsByItself(t *testing.T) {
	r := at(row{}, 100)
	r.apply(sharing("a", 2, false))
	r.apply(sharing("b", 2, false))
	r.apply(sharing("c", 2, true))
	r = at(r, 109)
	if res := r.apply(&request{verb: renew, key: "k", owner: "b", ttl: ttl}); !res.ok || !r.dirty {
		t.Fatalf("renew: %+v", res)
	}
	r.apply(sharing("c", 2, true)) // is seen
	r = at(r, 110.5)
	if res := r.apply(&request{verb: renew, key: "k", owner: "a", ttl: ttl}); res.ok {
		t.Error("a share that has ended was renewed")
	}
	if res := r.apply(&request{verb: fence, key: "k", owner: "a"}); res.ok {
		t.Error("a share that has ended got tokens")
	}
	if res := r.apply(sharing("d", 2, true)); res.ok || inside(&r) != "b c | d" {
		t.Errorf("%q, want c to have got what the end of a has left", inside(&r))
	}
	if r = at(r, 119.5); r.remains() != 119e6+500e3-r.now && r.remains() < 1 {
		t.Errorf("remains %d", r.remains())
	}
}

// The statement that renews knows the column owner only.
func TestAnOwnerWhoseLeaseHasEndedIsNotInARowWithACrowd(t *testing.T) {
	r := at(row{}, 100)
	r.apply(sharing("a", 1, false))
	r = at(r, 110.5)
	if res := r.apply(sharing("b", locker.NoLimit, false)); !res.ok || sole(&r) != "" || inside(&r) != "b | " {
		t.Errorf("%+v, column owner %q, %q", res, sole(&r), inside(&r))
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

func TestTokensOfPermitsAreInTheOrderOfTheirGrants(t *testing.T) {
	r := at(row{}, 100)
	first := r.apply(sharing("a", 2, false)).token
	second := r.apply(sharing("b", 2, false)).token
	r.apply(sharing("c", 2, true))
	r.apply(releases("a"))
	third := r.share("c").Token
	if first == 0 || second < first+locker.FenceBlock || third < second+locker.FenceBlock {
		t.Errorf("tokens %d, %d, %d", first, second, third)
	}
	if reader := r.apply(sharing("x", locker.NoLimit, false)); reader.token != 0 {
		t.Errorf("a reader has token %d", reader.token)
	}
}

func TestTheReleaserOfAShareWaitsBehindTheOthers(t *testing.T) {
	r := at(row{}, 100)
	r.apply(sharing("a", 2, false))
	r.apply(sharing("b", 2, false))
	q := releases("a")
	q.next, q.limit, q.offer, q.holder = "c", 1, 1e6, []byte("{}")
	if res := r.apply(q); !res.queued || !res.handed || inside(&r) != "b | c" {
		t.Errorf("%+v, %q, want c to wait for b", res, inside(&r))
	}
}

func TestSeveralKeysAreAcquiredTogetherOrNot(t *testing.T) {
	for _, prefix := range []bool{false, true} {
		rows := map[string]*row{}
		var batch []*request
		for _, key := range []string{"a", "b", "c"} {
			rows[key] = &row{now: 100e6}
			q := asks("me", false)
			q.key = key
			batch = append(batch, q)
		}
		other := asks("other", false)
		rows["b"].apply(other)
		rows["b"].dirty = false
		results, held := acquireAll(rows, batch, prefix)
		if held != 1 || results[1].ok || results[1].remains == 0 || results[2].ok || rows["c"].dirty {
			t.Errorf("prefix %v: held %d, %+v", prefix, held, results)
		}
		if rows["a"].owned("me") != prefix || results[0].ok != prefix {
			t.Errorf("prefix %v: the first key is owned: %v", prefix, rows["a"].owned("me"))
		}
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
		t.Errorf("%q, and later %q, want nobody", inside(ended), inside(r))
	}
}
