package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A turn is first in line again if its grant did not last until its begin.
func TestATurnThatRejoinsIsFirstInLine(t *testing.T) {
	s := settings()
	floor, waiter, back := &Turn{set: &s}, &Turn{set: &s}, &Turn{set: &s}
	gt := &gate{standing: standing{floor: floor}}
	gt.line.push(waiter)
	gt.rejoin(back, nil)
	if gt.line.first != back || back.next != waiter || gt.line.length != 2 {
		t.Errorf("%p is first in a line of %d, want %p", gt.line.first, gt.line.length, back)
	}
	gt.grant = &grant{}
	if gt.rejoin(floor, nil); gt.floor != floor || gt.grant != nil {
		t.Error("a turn on the floor does not contend again")
	}
	gt = &gate{}
	if gt.rejoin(back, nil); gt.floor != back {
		t.Error("a free floor is not taken")
	}
}

// A call with one attempt that is first in line, as after a rejoin, does not
// wait for a permit of this process. Those behind it that want no permit
// contend.
func TestBehindOneAttemptThatIsRefusedTheNextContends(t *testing.T) {
	alone, permit := settings(), limited(2)
	taken := []*grant{{}, {}}
	for name, behind := range map[string][]*Turn{
		"alone":           {{set: &alone}},
		"one more, alone": {{set: &permit, waiting: waiting{patience: Patience{Once: true}}}, {set: &alone}},
		"a permit":        {{set: &permit}, {set: &alone}},
		"nobody":          nil,
	} {
		once := &Turn{set: &permit, waiting: waiting{patience: Patience{Once: true}}}
		gt := &standing{floor: &Turn{set: &permit}, crowd: &crowd{grants: taken}}
		for _, w := range append([]*Turn{once}, behind...) {
			w.given = make(chan struct{}, 1)
			gt.line.push(w)
		}
		gt.giveFloor(nil)
		if len(once.given) != 1 || !errors.Is(once.verdict, errNoWait) {
			t.Errorf("%s: the call with one attempt is not refused", name)
		}
		if first := gt.line.first; gt.floor == nil && first != nil && !gt.crowd.full(first, 0) {
			t.Errorf("%s: nobody has the floor, and the first in line waits for no permit", name)
		}
		if name == "alone" && (gt.floor != behind[0] || len(behind[0].given) != 1) {
			t.Errorf("%s: the floor is not given", name)
		}
	}
}

// The turn that has the floor meanwhile is wanted by the one that rejoins.
func TestATurnThatRejoinsWantsTheGrantOfTheFloor(t *testing.T) {
	s := settings()
	floor, back, signal := &Turn{set: &s}, &Turn{set: &s}, new(Signal)
	floor.grant = &grant{tenure: newTenure(time.Now())}
	floor.grant.tenure.begin(floor, time.Now())
	gt := &gate{standing: standing{floor: floor, grant: floor.grant}}
	heard := signal.C(func() { gt.notify(floor, signal) })
	if signal.came.Load() {
		t.Error("told before anybody waits")
	}
	gt.rejoin(back, nil)
	select {
	case <-heard:
	default:
		t.Error("not told")
	}
}

// An offer says whether other processes wait, and so do messages that came
// since the bid was made (law 7). Beside a crowd these may be of our own claim.
func TestAnOfferTellsWhetherOthersWait(t *testing.T) {
	s := settings()
	turn := &Turn{set: &s}
	for i, c := range []struct {
		told    bool
		crowd   *crowd
		waiting int
		want    bool
	}{
		{waiting: 0, want: false},
		{waiting: 3, want: true},
		{told: true, want: true},
		{told: true, crowd: &crowd{}, want: false},
		{crowd: &crowd{}, waiting: 3, want: true},
	} {
		gt := &gate{common: new(common), standing: standing{floor: turn, crowd: c.crowd}}
		gt.want()
		gt.contender.openBid(&bid{terms: turn.terms(), claim: locker.Claim{Owner: "mine"}})
		if gt.granted("mine", locker.Offer{Waiting: c.waiting}); c.told {
			gt.want()
		}
		a, err := gt.next(turn, time.Now())
		if err != nil || a.do != toTake || a.bid.wanted != c.want {
			t.Errorf("case %d: next is %d, %v; wanted: %t", i, a.do, err, a.bid.wanted)
		}
	}
}

// What an update of the contender leaves over is given up.
func TestABidThatIsOverIsGivenUp(t *testing.T) {
	l := &counter{Locker: memlocker.New()}
	turn := &Turn{common: new(common), gate: new(gate)}
	turn.begin(l)
	turn.gate.contender.openBid(&bid{queued: true})
	turn.update(func(c *contender, _ time.Time) *bid { return c.dropBid() })
	_ = turn.janitor.Close(t.Context())
	if n := l.givenUp.Load(); n != 1 {
		t.Errorf("%d bids were given up", n)
	}
}

// A meddler runs a function when the store has answered a request, before the
// process gets the answer.
type meddler struct {
	locker.Locker

	acquired, released func()
}

func (m *meddler) Acquire(ctx context.Context, c *locker.Claim, try locker.Try) (locker.Answer, error) {
	defer meddle(&m.acquired)
	return m.Locker.Acquire(ctx, c, try)
}

func (m *meddler) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	defer meddle(&m.released)
	return m.Locker.Release(ctx, c, e)
}

// meddle runs *f once.
func meddle(f *func()) {
	if run := *f; run != nil {
		*f = nil
		run()
	}
}

// A call that begins to wait is known to the next turn here, though its message
// comes before the answer to the request that brought the turn.
func TestAMessageMayComeBeforeTheAnswer(t *testing.T) {
	begin := func(t *testing.T, e *Engine) <-chan *Turn {
		t.Helper()
		turn := make(chan *Turn, 1)
		go func() { turn <- mustTake(t, e, settings()) }() // ends with its wait
		return turn
	}
	type take func(t *testing.T, m *meddler, ours, theirs *Engine) (turn *Turn, waits <-chan *Turn)
	for name, take := range map[string]take{
		"try": func(t *testing.T, m *meddler, ours, theirs *Engine) (turn *Turn, waits <-chan *Turn) {
			t.Helper()
			m.acquired = func() {
				waits = begin(t, theirs)
				synctest.Wait()
			}
			turn = mustTake(t, ours, settings())
			return turn, waits
		},
		"release and offer": func(t *testing.T, m *meddler, ours, theirs *Engine) (turn *Turn, waits <-chan *Turn) {
			t.Helper()
			first := mustTake(t, ours, settings())
			second := begin(t, theirs)
			synctest.Wait()
			third := begin(t, ours) // behind the tenure
			synctest.Wait()
			m.released = func() { // the key is theirs, and our next claim is queued
				mustEnd(t, <-second) // it is ours again
				waits = begin(t, theirs)
				synctest.Wait()
			}
			mustEnd(t, first)
			return <-third, waits
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memlocker.New()
				m := &meddler{Locker: mem}
				ours, theirs := open(t, m), open(t, mem.Peer())
				turn, waits := take(t, m, ours, theirs)
				w := new(Signal)
				select {
				case <-w.C(func() { turn.Notify(w) }):
				default:
					t.Error("the turn does not know that another process waits")
				}
				mustEnd(t, turn)
				mustEnd(t, <-waits)
				closed(t, ours)
				closed(t, theirs)
			})
		})
	}
}

// joined returns a turn on "k" that has joined its gate, and goes on by take.
func joined(t *testing.T, e *Engine, s Settings) *Turn {
	t.Helper()
	if !e.Enter() {
		t.Fatal("the engine is closed")
	}
	turn, now := &Turn{common: &e.common, gate: e.gates.enter("k"), set: &s, events: &party{}}, time.Now()
	turn.waiting = waiting{ctx: t.Context(), patience: Patience{Start: now, Until: now.Add(s.MaxWait)}, joined: now}
	if in, _, _ := turn.gate.join(turn, now); !in {
		t.Fatal("the turn does not stand in line")
	}
	return turn
}

// A turn whose grant is lost before the turn has seen it contends at once.
func TestATurnWhoseGrantIsLostOnItsWayHereContends(t *testing.T) {
	for name, on := range map[string]func(t *testing.T, e *Engine) (next *Turn){
		"handed on": func(t *testing.T, e *Engine) *Turn {
			t.Helper()
			turn, err := new(party).take(t.Context(), e, "k", settings())
			if err != nil {
				t.Fatal(err)
			}
			next := joined(t, e, settings())
			if err := end(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			return next
		},
		"idle": func(t *testing.T, e *Engine) *Turn {
			t.Helper()
			settle(t, e)
			return joined(t, e, lingering())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memlocker.New()
				e := open(t, mem)
				next := on(t, e)
				gr, has, _, _ := next.gate.stand(next)
				if !has || gr == nil {
					t.Fatal("the turn has no grant: the test tests nothing")
				}
				mem.Lose("k")
				gr.lose(locker.ErrLeaseLost)
				start := time.Now()
				_, err := (&waiter{Turn: next}).take(t.Context(), true)
				if took := time.Since(start); err != nil || took > 0 {
					t.Fatalf("the turn began after %v (%v)", took, err)
				}
				if n, _, idle, _ := next.Tried(); n != 1 || idle {
					t.Errorf("%d requests, and the turn took an idle grant: %t", n, idle)
				}
				next.Drop()
				if err := e.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A grant that comes as its caller leaves goes to the next in line, or is given
// up. Its caller has no turn (law 3).
func TestAGrantWhoseCallerHasLeftGoesOn(t *testing.T) {
	for _, follows := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := memlocker.New()
			m := &meddler{Locker: mem}
			e, other := open(t, m), open(t, mem.Peer())
			ctx, leave := context.WithCancel(t.Context())
			next := make(chan *Turn, 1)
			m.acquired = func() {
				if follows {
					go func() { next <- mustTake(t, e, settings()) }() // ends with its wait
					synctest.Wait()
				}
				leave()
			}
			if r := ask(ctx, e, "k", settings()); !errors.Is(r.err, ErrEnded) {
				t.Errorf("a caller that has left: %v, want ErrEnded", r.err)
			}
			if follows {
				turn := <-next
				if n, _, _, _ := turn.Tried(); n != 0 {
					t.Errorf("the next in line sent %d tries, want the grant of the one who left", n)
				}
				mustEnd(t, turn)
			}
			synctest.Wait()
			s := settings()
			s.MaxWait = 0
			mustEnd(t, mustTake(t, other, s)) // the key is free
			closed(t, e)
			closed(t, other)
		})
	}
}

// A release queues the bid of the first in line, which leaves meanwhile. The
// bid is taken back (law 3).
func TestABidOfAReleaseWhoseCallerLeavesIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		m := &meddler{Locker: mem}
		l := &counter{Locker: m}
		e, other := open(t, l), open(t, mem.Peer())
		turn := mustTake(t, e, settings())
		theirs := make(chan *Turn, 1)
		go func() { theirs <- mustTake(t, other, settings()) }() // ends with its wait
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		go ask(ctx, e, "k", settings()) // ends with ctx
		synctest.Wait()
		m.released = func() {
			leave()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(limits.TenureTime)
		mustEnd(t, turn)
		synctest.Wait()
		mustEnd(t, <-theirs)
		synctest.Wait()
		if n := l.givenUp.Load(); n != 1 {
			t.Errorf("%d bids were given up, want the one that the release queued", n)
		}
		closed(t, e)
		closed(t, other)
	})
}

// An answer may come so late that too little of the lease is left. The claim is
// given up, and another one contends (law 1).
func TestAnAnswerThatComesTooLateIsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &counter{Locker: &meddler{
			Locker:   memlocker.New(),
			acquired: func() { time.Sleep(800 * time.Millisecond) }, // though its limit is 250 ms
		}}
		e, s := open(t, l), settings()
		s.TTL = time.Second
		turn := mustTake(t, e, s)
		if left := time.Until(turn.Deadline()); left < 900*time.Millisecond || l.givenUp.Load() != 1 {
			t.Errorf("the turn began with %v left, and %d claims were given up", left, l.givenUp.Load())
		}
		mustEnd(t, turn)
		closed(t, e)
	})
}
