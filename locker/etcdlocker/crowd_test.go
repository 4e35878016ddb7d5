package etcdlocker

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

func TestThoseInFrontComeInAsFarAsEachLimitAllows(t *testing.T) {
	const all = locker.NoLimit
	for _, c := range []struct {
		owners, queue []int
		comes         int
	}{
		{nil, nil, 0},
		{nil, []int{1, all}, 1},
		{nil, []int{all, all, 1, all}, 2},
		{[]int{1}, []int{all}, 0},
		{[]int{all}, []int{1, all}, 0},
		{[]int{all, all}, []int{all, 3, all}, 1},
		{[]int{all}, []int{2, all}, 1},
		{[]int{4, 4}, []int{4, 4, 4}, 2},
		{[]int{2, 4}, []int{4}, 0},
		{[]int{4}, []int{4, 2}, 1},
		{nil, []int{0, all}, 0}, // an entry that cannot be read
		{nil, make([]int, 2*runMax), 0},
	} {
		at := &crowd{}
		for _, n := range c.owners {
			at.owners = append(at.owners, owner{limit: n})
		}
		for _, n := range c.queue {
			at.queue = append(at.queue, waiter{limit: n})
		}
		if run := at.run(); len(run) != c.comes || len(run)+len(at.queue) != len(c.queue) {
			t.Errorf("owners %v, queue %v: %d come in, and %d wait, want %d to come in",
				c.owners, c.queue, len(run), len(at.queue), c.comes)
		}
	}
	at := &crowd{queue: make([]waiter, 2*runMax)}
	for i := range at.queue {
		at.queue[i].limit = all
	}
	if n := len(at.run()); n != runMax {
		t.Errorf("%d come in at once, want %d", n, runMax)
	}
}

func TestAKeyIsHeldUntilItsLastShareEnds(t *testing.T) {
	at := &crowd{owners: []owner{{left: time.Second}, {left: 3 * time.Second}, {left: 2 * time.Second}}}
	if d := at.left(); d != 3*time.Second {
		t.Errorf("it is held for %v, want 3 s", d)
	}
}

// A key that nobody owns is anybody's (law 8). The claims that wait may be of
// processes that are gone.
func TestAShareTakesAKeyThatNobodyOwns(t *testing.T) {
	l := New(nil)
	c := &locker.Claim{Key: "k", Owner: "me", Limit: locker.NoLimit}
	for _, owners := range [][]owner{nil, {{id: "other", limit: locker.NoLimit}}} {
		s := &squeeze{
			attempt: &attempt{l: l, c: c, st: l.book.Page(c)}, found: &found{revision: 9},
			at: &crowd{owners: owners, queue: []waiter{{queued: queued{Key: []byte(l.queueOf("k") + "0")}, limit: 1}}},
		}
		if s.find(); s.owns != (owners == nil) || s.owns && len(s.run) != 1 {
			t.Errorf("owners %v: it owns the key: %v, and %d come in", owners, s.owns, len(s.run))
		}
	}
}

// etcd refuses a transaction that writes a key twice.
func TestADraftWritesEachKeyOnce(t *testing.T) {
	l := New(nil)
	b := &draft{l: l, key: "k", dels: []string{"a", "b"}, puts: []put{{path: "b"}, {path: "c"}}}
	for i := range 3 {
		b.mail = append(b.mail, letter{instance: strconv.Itoa(i % 2), message: message{Nth: i}})
	}
	written := map[string]bool{}
	for _, op := range b.ops() {
		if written[string(op.KeyBytes())] {
			t.Errorf("%s is written twice", op.KeyBytes())
		}
		written[string(op.KeyBytes())] = true
	}
	if len(written) != 5 {
		t.Errorf("%d keys are written, want 5: %v", len(written), written)
	}
	if all := b.letters(); len(all[0].message.And) != 1 || all[0].message.And[0].Nth != 2 {
		t.Errorf("a message is missing: %+v", all)
	}
}

func TestClaimsThatGetAKeyTogetherHaveTokensOfTheirOwn(t *testing.T) {
	last := uint64(0)
	for rev := range int64(3) {
		for nth := range grantsMax {
			n := token(rev+1, nth)
			if n < last+locker.FenceBlock {
				t.Fatalf("token %d of the claim %d of revision %d follows %d", n, nth, rev+1, last)
			}
			last = n
		}
	}
}

// A share that was renewed since it was looked at has not ended.
func TestAStepComparesEachShareThatHasEnded(t *testing.T) {
	at := &crowd{revision: 9, ended: []owner{{path: "a", revision: 5}, {path: "b", revision: 6}}}
	compared := map[string]bool{}
	for _, c := range at.same(New(nil), "k") {
		compared[string(c.KeyBytes())] = true
	}
	for _, o := range at.ended {
		if !compared[o.path] {
			t.Errorf("%s is not compared", o.path)
		}
	}
}

// A permit may find by a look that it was granted, and serve the queue by that.
func TestPermitsOfOneTransactionHaveTokensOfTheirOwn(t *testing.T) {
	l := New(nil)
	me := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Minute, Limit: 3, Fencing: true}
	l.sessionFor(me.TTL).set(1, time.Hour, time.Now())
	s := &squeeze{
		attempt: &attempt{l: l, c: me, st: l.book.Page(me)}, found: &found{},
		at: &crowd{owners: []owner{{id: me.Owner, limit: 3}}, queue: []waiter{{limit: 3}}},
	}
	s.find()
	b, err := s.plan(t.Context())
	if err != nil || len(b.mail) != 1 {
		t.Fatalf("%+v, %v, want a letter to the one that waits", b, err)
	}
	if mine, other := token(7, s.nth), token(7, b.mail[0].message.Nth); other <= mine {
		t.Errorf("tokens %d and %d, want that of the later grant to be higher", mine, other)
	}
}
