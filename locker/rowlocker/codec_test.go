package rowlocker

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var (
	withClock = &Traits{Name: "test", Clock: true, Grain: time.Millisecond}
	noClock   = &Traits{Name: "test"}
)

// beside returns a row that a owns, with so many tickets of claims beside it.
func beside(t *testing.T, n int, traits *Traits) Row {
	t.Helper()
	r := at(row{blocks: !traits.Clock}, 100)
	r.apply(asks("a", false))
	src := encode("k", &r, traits)[0]
	src.Version, src.Written, src.Now = 7, 100e6, 100e6
	for i := range n {
		name := "w" + strconv.Itoa(100+i)
		value, err := json.Marshal(asks(name, true).waiter(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		src.Tickets = append(src.Tickets, Ticket{Name: name, Version: 100e6 + int64(i), Value: value})
	}
	return src
}

// Planted: all tickets are merged, so that the row grows with the queue.
func TestAWriteTakesSomeTicketsUnlessItFreesTheKey(t *testing.T) {
	const n = mergeMax + 4
	src := beside(t, n, withClock)
	r := decode(&src, withClock, newMemory(), 0)
	r.apply(&request{verb: renew, key: "k", owner: "a", ttl: ttl})
	renewed := encode("k", r, withClock)[0]
	if len(r.queue) != n || len(renewed.Drop) != mergeMax || renewed.Alone || renewed.Beside != 100e6+n-1 {
		t.Fatalf("%d wait, %d are merged, alone %v, beside %d",
			len(r.queue), len(renewed.Drop), renewed.Alone, renewed.Beside)
	}
	next := renewed
	next.Version, next.Written, next.Now, next.Tickets = 8, 101e6, 101e6, src.Tickets[mergeMax:]
	r = decode(&next, withClock, newMemory(), 0)
	for i, w := range r.queue {
		if want := "w" + strconv.Itoa(100+i); w.Owner != want {
			t.Fatalf("place %d has %s, want %s", i, w.Owner, want)
		}
	}
	r.apply(releases("a")) // hands over to the first
	if handed := encode("k", r, withClock)[0]; handed.Alone {
		t.Error("a hand-over to one claim need not know of all")
	}
	shares := beside(t, n, withClock)
	r = decode(&shares, withClock, newMemory(), 0)
	for i := range r.queue {
		r.queue[i].Limit = locker.NoLimit
	}
	r.apply(releases("a"))
	if freed := encode("k", r, withClock)[0]; !freed.Alone || len(freed.Drop) != n {
		t.Errorf("alone %v, %d tickets dropped, want all", freed.Alone, len(freed.Drop))
	}
}

// The row of an open key may go before the shares beside it.
func TestAShareBesideNoRowLosesItsMarkWhenItGoes(t *testing.T) {
	value := []byte(`{"o":"a","l":999999,"d":10000000,"h":{}}`)
	src := Row{Key: "k", Tickets: []Ticket{{Name: member + "a", Version: 7, Value: value}}}
	r := decode(&src, &Traits{Name: "test", Members: true}, newMemory(), 1e6)
	if res := r.apply(&request{verb: revoke, key: "k", owner: "a"}); !res.ok {
		t.Fatalf("%+v", res)
	}
	if got := encode("k", r, noClock)[0].Marks; !slices.Equal(got, []Mark{{Owner: "a"}}) {
		t.Errorf("%v, want that of a to go", got)
	}
}

// Planted: a share that has ended keeps its mark.
func TestMarksNameTheSharesThatCameAndWent(t *testing.T) {
	r := at(row{}, 100)
	r.apply(sharing("a", 3, false))
	r.apply(sharing("b", 3, false))
	src := encode("k", &r, withClock)[0]
	src.Version, src.Written, src.Now = 7, 100e6, 109e6
	d := time.Duration(ttl) * time.Microsecond
	if want := []Mark{{"a", d}, {"b", d}}; !slices.Equal(src.Marks, want) {
		t.Errorf("two shares came: %v, want %v", src.Marks, want)
	}
	for name, c := range map[string]struct {
		now  int64
		q    *request
		want []Mark
	}{
		"a renewal": {109e6, &request{verb: renew, owner: "a", ttl: ttl}, []Mark{{"a", d + time.Millisecond}}},
		"a release": {109e6, releases("a"), []Mark{{Owner: "a"}}},
		"one after their": {
			111e6, sharing("c", 3, false), []Mark{{"c", d + time.Millisecond}, {Owner: "a"}, {Owner: "b"}},
		},
	} {
		src.Now = c.now
		r := decode(&src, withClock, newMemory(), 0)
		r.apply(c.q)
		if got := encode("k", r, withClock)[0].Marks; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Planted: a row with a clock goes with its lease, and its tokens come again.
func TestARowOutlivesWhatItSays(t *testing.T) {
	for _, traits := range []*Traits{withClock, noClock} {
		r := at(row{blocks: !traits.Clock}, 100)
		r.apply(asks("a", false))
		r.apply(&request{verb: begin, key: "k", owner: "a", ttl: minute, value: []byte("m")})
		kept := time.Minute
		if traits.Clock {
			kept += unreadFor
		}
		if src := encode("k", &r, traits)[0]; src.KeepFor != kept || src.HeldFor != 10*time.Second {
			t.Errorf("clock %v: kept for %v, held for %v", traits.Clock, src.KeepFor, src.HeldFor)
		}
		r.token = 200e6
		if src := encode("k", &r, traits)[0]; (src.KeepFor == 100*time.Second+unreadFor) != traits.Clock {
			t.Errorf("clock %v, a token 100 s ahead: kept for %v", traits.Clock, src.KeepFor)
		}
		r.apply(&request{verb: release, key: "k", owner: "a", unmark: true})
		if src := encode("k", &r, traits)[0]; (src.Value == nil) != !traits.Clock {
			t.Errorf("clock %v: a free key has the row %q", traits.Clock, src.Value)
		}
	}
	r := row{dirty: true, now: 300e6}
	if src := encode("k", &r, withClock)[0]; src.Value == nil || src.KeepFor <= 0 {
		t.Errorf("a free key without tokens: %q is kept for %v", src.Value, src.KeepFor)
	}
}

// Planted: an entry is fresh if its stamp is that of the write, which another
// write of the same µs has too.
func TestAnEntryIsFreshByTheWriteThatHasNoStampOfIt(t *testing.T) {
	r := at(row{}, 100)
	r.apply(asks("a", false))
	src := encode("k", &r, withClock)[0]
	src.Version, src.Written, src.Now = 1, 100e6, 100e6
	first := decode(&src, withClock, newMemory(), 0)
	first.apply(asks("b", true))
	src = encode("k", first, withClock)[0]
	src.Version, src.Written, src.Now = 2, 100e6, 100e6 // the same µs
	if second := decode(&src, withClock, newMemory(), 0); !first.owners[0].fresh || second.owners[0].fresh {
		t.Errorf("fresh by its own write %v, by the next %v", first.owners[0].fresh, second.owners[0].fresh)
	}
}

// Planted: the first sight of a stamp is taken anew by each reader of the row.
func TestWithoutAClockALeaseEndsByTheFirstSightOfIt(t *testing.T) {
	r := at(row{blocks: true}, 100)
	r.apply(asks("a", false))
	src := encode("k", &r, noClock)[0]
	src.Version = 5
	m := newMemory()
	if seen := decode(&src, noClock, m, 500e6); seen.free() || seen.token != tokenOf(5, -1) {
		t.Fatalf("free %v, token %d", seen.free(), seen.token)
	}
	for second, free := range map[int64]bool{509: false, 511: true} {
		if seen := decode(&src, noClock, m, second*1e6); seen.free() != free {
			t.Errorf("%d s after the first sight: free %v", second-500, seen.free())
		}
	}
	if big := tokenOf(1<<47-1, -grantsMax+1); big <= 0 {
		t.Errorf("the token of the largest version is %d", big)
	}
}

// Planted: a row of each key stays in memory, or a sight.
func TestAProcessRemembersSomeKeysOnly(t *testing.T) {
	const most = 10_000 // see lockerkit.MakeRoom
	m := newMemory()
	for n := range most + 100 {
		key := strconv.Itoa(n)
		m.keep(Row{Key: key, Version: 1})
		m.first(key, 1, 1)
	}
	if len(m.rows) > most || len(m.sights) > most {
		t.Errorf("%d rows and the sights of %d keys are remembered", len(m.rows), len(m.sights))
	}
}

// Planted: a row that cannot be read is taken for a free key.
func TestARowThatCannotBeReadIsHeld(t *testing.T) {
	for _, value := range []string{"", "x", "x/", "x/{", "/[]"} {
		src := Row{Key: "k", Version: 1, Value: []byte(value)}
		if r := decode(&src, noClock, newMemory(), 1e6); r.free() {
			t.Errorf("%q: the key is free", value)
		}
	}
}

// Planted: what is known of a Value is kept when a store changes it, or shares
// know by it that they have tickets.
func TestWhatARowSaysIsReadOnce(t *testing.T) {
	src := beside(t, 2, withClock)
	r := decode(&src, withClock, newMemory(), 0)
	r.apply(&request{verb: renew, key: "k", owner: "a", ttl: ttl})
	written := encode("k", r, withClock)[0]
	written.Version, written.Written, written.Now = 8, 101e6, 101e6
	foreign := written
	foreign.Value, foreign.says = slices.Clone(written.Value), nil
	for name, src := range map[string]*Row{"written here": &written, "by others": &foreign} {
		for range 2 {
			r := decode(src, withClock, newMemory(), 0)
			if len(r.queue) != 2 || r.queue[0].beside || r.queue[1].Seen != 100e6+1 {
				t.Errorf("%s: the queue is %+v", name, r.queue)
			}
			r.apply(releases("a")) // changes r, not what src says
		}
	}
	if written.Value = []byte("/{}"); !decode(&written, withClock, newMemory(), 0).free() {
		t.Error("the key has the owner of another Value")
	}
}

// A newer version may know whose the key is, and what else the row says.
func TestARowThatCannotBeReadIsNotWrittenOver(t *testing.T) {
	for _, kind := range []string{"", "clock", "tickets", "members"} {
		synctest.Test(t, func(t *testing.T) {
			var w *world
			ls, _ := peers(t, 2, func(m *memRows) *Locker {
				w, m.clock, m.members = m.w, kind == "clock", kind == "members"
				if kind == "" || kind == "clock" {
					return New(memEars{m})
				}
				return New(memTickets{memPulse{memEars{m}}})
			})
			w.rows["k"] = Row{Version: 1, Value: []byte("x"), Written: time.Now().UnixMicro()}
			w.gone["k"] = time.Now().Add(time.Hour)
			for range 10 {
				for i, c := range []*locker.Claim{wants('a', 1), wants('b', locker.NoLimit)} {
					a, err := ls[i].Acquire(t.Context(), c, locker.Try{Wait: true})
					if err != nil || a.Acquired || a.Queued || a.Remaining != 0 {
						t.Fatalf("%s: Acquire: %+v, %v, want a key that is held", kind, a, err)
					}
					_, err = ls[i].Release(t.Context(), c, locker.End{Queued: true})
					if !errors.Is(err, locker.ErrLeaseLost) {
						t.Errorf("%s: Release of a claim that waited: %v", kind, err)
					}
				}
				time.Sleep(locker.LookEvery)
			}
			s, err := ls[0].Inspect(t.Context(), "k")
			if err != nil || !s.Held || s.Remaining != 0 {
				t.Errorf("%s: %+v, %v, want a key that is held", kind, s, err)
			}
			if row := w.rows["k"]; row.Version != 1 || string(row.Value) != "x" || len(row.Tickets) > 0 {
				t.Errorf("%s: the row is %+v", kind, row)
			}
		})
	}
}
