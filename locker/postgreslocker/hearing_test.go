package postgreslocker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// patience is for what happens in milliseconds on a machine without other work.
const patience = time.Minute

// told is a Waker that passes on for which keys others wait.
type told struct {
	silent

	wanted chan string
}

func (w told) Wanted(key string) { w.wanted <- key }

// open opens l for a test.
func open(t *testing.T, l *postgreslocker.Locker, w locker.Waker) {
	t.Helper()
	if err := l.Open(w); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

func until(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !seen(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not seen: %s", what)
		}
	}
}

func acquire(t *testing.T, l *postgreslocker.Locker, c *locker.Claim, try locker.Try) locker.Answer {
	t.Helper()
	x, err := l.Acquire(t.Context(), c, try)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// isTold has b wait for a key that a process owns, which w must hear of.
func isTold(t *testing.T, b *postgreslocker.Locker, w told, key string) {
	t.Helper()
	c := claim(key)
	if x := acquire(t, b, c, locker.Try{Wait: true}); !x.Queued {
		t.Fatalf("%+v, want it queued", x)
	}
	end := time.After(patience)
	for {
		select {
		case <-w.wanted:
			_, _ = b.Release(t.Context(), c, nil)
			return
		case <-time.After(400 * time.Millisecond): // it looks, as a guard does
			acquire(t, b, c, locker.Try{Wait: true, Queued: true})
		case <-end:
			t.Fatal("the owner does not learn that somebody waits")
		}
	}
}

func TestAnOwnerLearnsOfWaitersWhenItBeginsToHear(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	w := told{wanted: make(chan string, 10)}
	open(t, a, w)
	open(t, b, silent{})
	c := claim("k")
	acquire(t, a, c, locker.Try{}) // nothing listens before the first claim
	until(t, "it hears", a.Hears)
	isTold(t, b, w, "k")
	a.Renew(t.Context(), []*locker.Claim{c}, func(_ int, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	isTold(t, b, w, "k") // by a message, because the row names the channel now
}

// pairThrough is pair with a pipe through which a, and only a, hears.
func pairThrough(t *testing.T) (a, b *postgreslocker.Locker, faults *way, pipe *faultpipe.Pipe) {
	t.Helper()
	faults = &way{}
	pipe, dsn := piped(t, faults)
	_, b = pair(t)
	a = postgreslocker.New(pool(t), postgreslocker.WithTable(tableOf(b)), postgreslocker.WithListen(dsn))
	return a, b, faults, pipe
}

func TestAnOwnerLearnsOfWaitersWhenItHearsNoMore(t *testing.T) {
	t.Parallel()
	a, b, faults, pipe := pairThrough(t)
	w := told{wanted: make(chan string, 10)}
	open(t, a, w)
	open(t, b, silent{})
	acquire(t, a, claim("first"), locker.Try{})
	until(t, "it hears", a.Hears)
	acquire(t, a, claim("k"), locker.Try{})
	faults.gone.Store(true)
	pipe.Cut(nil)
	until(t, "it does not hear any more", func() bool { return !a.Hears() })
	isTold(t, b, w, "k")
}

// While nothing was heard, the message of a claim that came to wait may have
// got lost.
func TestAnOwnerThatHearsAgainPollsUntilItsNextRenewal(t *testing.T) {
	t.Parallel()
	a, _, faults, pipe := pairThrough(t)
	open(t, a, silent{})
	first, c := claim("first"), claim("k")
	acquire(t, a, first, locker.Try{})
	until(t, "it hears", a.Hears)
	_, _ = a.Release(t.Context(), first, nil)
	acquire(t, a, c, locker.Try{})
	if n := a.Polls(); n != 0 {
		t.Fatalf("it polls for %d claims while messages come", n)
	}
	faults.gone.Store(true)
	pipe.Cut(nil)
	until(t, "it does not hear any more", func() bool { return !a.Hears() })
	faults.gone.Store(false)
	until(t, "it hears again", a.Hears)
	if n := a.Polls(); n != 1 {
		t.Errorf("it polls for %d claims, want the one that it owns", n)
	}
	a.Renew(t.Context(), []*locker.Claim{c}, func(_ int, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	if n := a.Polls(); n != 0 {
		t.Errorf("it polls for %d claims after a renewal", n)
	}
}

// A claim may learn of its grant by a look, and give the key back, before the
// message comes.
func TestAMessageOfAClaimThatIsOverIsForgotten(t *testing.T) {
	t.Parallel()
	a, b := pair(t, postgreslocker.WithPollOnly())
	open(t, a, silent{})
	open(t, b, silent{})
	owner, c := claim("k"), claim("k")
	acquire(t, a, owner, locker.Try{})
	acquire(t, b, c, locker.Try{Wait: true})
	if _, err := a.Release(t.Context(), owner, nil); err != nil {
		t.Fatal(err)
	}
	acquire(t, b, c, locker.Try{Wait: true, Queued: true})
	message := fmt.Sprintf("g %x %s 0 0 1000000", c.Key, c.Owner)
	if b.Hear(message); b.Polls() != 1 {
		t.Errorf("it polls for %d claims, want the one that owns its key", b.Polls())
	}
	if _, err := b.Release(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	if b.Hear(message); b.Polls() != 0 {
		t.Errorf("it polls for %d claims for good, want none", b.Polls())
	}
}

func TestAClaimThatIsToldOfARecordIsForgotten(t *testing.T) {
	t.Parallel()
	a, b := pair(t, postgreslocker.WithPollOnly())
	open(t, a, silent{})
	open(t, b, silent{})
	owner, c := claim("k"), claim("k")
	owner.Recall, c.Recall = true, true
	acquire(t, a, owner, locker.Try{})
	acquire(t, b, c, locker.Try{Wait: true})
	if _, err := a.Keep(t.Context(), owner, nil, locker.Record{Value: "v", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if b.Hear(fmt.Sprintf("k %x %s", c.Key, c.Owner)); b.Polls() != 0 {
		t.Errorf("it polls for %d claims for good, want none", b.Polls())
	}
}

// joins is a Waker that passes on which claims have left their queues.
type joins struct {
	silent

	left chan string
}

func (w joins) Recorded(_, owner, _ string) { w.left <- owner }

// A guard that believes that its claim has left the queue does not abandon it.
func TestAClaimInTheQueueIsNotToldOfAMarkThatCounts(t *testing.T) {
	t.Parallel()
	a, b := pair(t, postgreslocker.WithPollOnly())
	w := joins{left: make(chan string, 1000)}
	open(t, a, silent{})
	open(t, b, w)
	var c *locker.Claim
	for n, queued := 0, false; !queued; n++ { // a busy machine may need longer than the lease
		owner := claim(fmt.Sprint("k", n))
		owner.TTL, owner.Recall = 300*time.Millisecond, true
		acquire(t, a, owner, locker.Try{})
		_, _ = a.Begin(t.Context(), owner, locker.Record{Value: "m", TTL: time.Minute})
		c = claim(owner.Key)
		c.Recall = true
		queued = acquire(t, b, c, locker.Try{Wait: true}).Queued
	}
	time.Sleep(time.Second) // the lease ends, and the locker polls many times
	for len(w.left) > 0 {
		if <-w.left == c.Owner {
			t.Error("the guard hears that a claim in the queue has left it")
		}
	}
	if x := acquire(t, b, c, locker.Try{Wait: true, Queued: true}); x.Record != "m" {
		t.Errorf("%+v, want the mark", x)
	}
}

// A connection that is cut off without a word leaves a session in the server
// for as long as that does not notice.
func TestALockerHearsAgainWhileItsOldSessionStays(t *testing.T) {
	t.Parallel()
	a, _, faults, _ := pairThrough(t)
	open(t, a, silent{})
	acquire(t, a, claim("k"), locker.Try{})
	until(t, "it hears", a.Hears)
	faults.still.Store(true)
	until(t, "it notices", func() bool { return !a.Hears() })
	faults.still.Store(false)
	until(t, "it hears again", a.Hears)
}

func TestCloseDoesNotWaitForEachClaimOfAServerThatIsAway(t *testing.T) {
	t.Parallel()
	var faults way
	pipe, dsn := piped(t, &faults)
	_, b := pair(t)
	a := postgreslocker.New(poolTo(t, dsn), postgreslocker.WithTable(tableOf(b)))
	open(t, a, silent{})
	open(t, b, silent{})
	acquire(t, b, claim("k"), locker.Try{})
	for range 60 {
		if x := acquire(t, a, claim("k"), locker.Try{Wait: true}); !x.Queued {
			t.Fatalf("%+v, want it queued", x)
		}
	}
	faults.gone.Store(true)
	pipe.Cut(func(faultpipe.Link) bool { return true })
} // the claims take less than patience together

// The services of a system stop together with their database now and then.
// Close waits for an Abandon that insists, in production for half a minute.
func TestCloseGivesUpOnASilentServer(t *testing.T) {
	t.Parallel()
	var faults way
	_, dsn := piped(t, &faults)
	_, b := pair(t)
	a := postgreslocker.New(poolTo(t, dsn), postgreslocker.WithTable(tableOf(b)))
	a.InsistFor(time.Second)
	open(t, a, silent{})
	c := claim("k")
	acquire(t, a, c, locker.Try{})
	faults.still.Store(true)
	began := time.Now()
	a.Abandon(c, true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := a.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("Close gave up after %v, want it to insist for a second", took)
	}
}
