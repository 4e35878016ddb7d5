package lockerkit_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

type book = lockerkit.Book[struct{}]

// ended is a claim of which a Book says that it is over.
type ended struct{ owner, entry string }

// overs are the claims of which a Book says so.
type overs struct {
	mu  sync.Mutex // guards all
	all []ended
}

func (o *overs) add(c *locker.Claim, entry string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, ended{c.Owner, entry})
}

func (o *overs) are(want ...ended) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Equal(o.all, want)
}

func (o *overs) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprint(o.all)
}

// bookOf returns a Book, and what it says of claims that are over.
func bookOf(life *lockerkit.Life) (b *book, over *overs) {
	over = &overs{}
	return lockerkit.NewBook[struct{}](life, "here", over.add), over
}

func claim(owner string) *locker.Claim { return &locker.Claim{Key: "k", Owner: owner} }

func TestAClaimHasOnePageAndBearsTheInstance(t *testing.T) {
	b, _ := bookOf(opened(t))
	c := claim("a")
	if p := b.Page(c); p != b.Page(c) || p.Claim != c || c.Holder.Instance != "here" {
		t.Errorf("pages %p and %p of %+v", p, b.Page(c), c)
	}
}

func TestAClaimIsInTheQueueUntilItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := opened(t)
		b, over := bookOf(life)
		p := b.Page(claim("a"))
		if p.MayQueue() || p.Look() != "" {
			t.Error("it is in a queue from the beginning")
		}
		p.Queue("first")
		p.Unqueue()
		if p.MayQueue() || p.Look() != "" || b.LeaveAll() != nil {
			t.Error("it is in the queue that it was refused")
		}
		p.Queue("second")
		if !p.MayQueue() || p.Look() != "second" || p.Entry() != "second" {
			t.Errorf("in the queue: %v, at %q and %q", p.MayQueue(), p.Look(), p.Entry())
		}
		if entry := p.Leave(); entry != "second" || p.MayQueue() || p.Look() != "" {
			t.Errorf("it has left %q, and may be in the queue: %v", entry, p.MayQueue())
		}
		p.Queue("third")
		if p.MayQueue() {
			t.Error("it is in a queue again after it left one for good")
		}
		p.Leave()
		time.Sleep(time.Hour)
		if !over.are() {
			t.Errorf("%v is over, though nothing waits for its end", over)
		}
		closed(t, life)
	})
}

func TestAClaimThatNobodyLooksAtIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := opened(t)
		b, over := bookOf(life)
		p := b.Page(claim("a"))
		p.Queue("entry")
		for range 3 {
			time.Sleep(locker.QueueLife - time.Millisecond)
			if p.Look() != "entry" || p.Ended() || !over.are() {
				t.Fatalf("it is over though it was looked at: %v", over)
			}
		}
		time.Sleep(locker.QueueLife)
		synctest.Wait()
		if want := (ended{"a", "entry"}); !over.are(want) || p.MayQueue() {
			t.Errorf("over: %v, want %v", over, want)
		}
		if !p.Ended() || p.Own(time.Minute) || p.Over() {
			t.Error("it may own its key while the Book gives that back")
		}
		closed(t, life)
	})
}

func TestALeaseThatIsNotRenewedIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := opened(t)
		b, over := bookOf(life)
		p := b.Page(claim("a"))
		p.Queue("entry")
		for range 3 {
			p.Own(time.Minute)
			time.Sleep(time.Minute - time.Millisecond)
			if p.Over() || !over.are() {
				t.Fatalf("a renewed lease is over: %v", over)
			}
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if want := (ended{"a", "entry"}); !p.Over() || !p.Ended() || !over.are(want) {
			t.Errorf("it is over: %v; it was told of: %v, want %v", p.Over(), over, want)
		}
		if p.Own(time.Minute) || !p.Over() {
			t.Error("it may own its key while the Book gives that back")
		}
		closed(t, life)
	})
}

func TestAGrantIsNewsOnlyOfAClaimThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := opened(t)
		b, over := bookOf(life)
		waits, owns, gone := b.Page(claim("waits")), b.Page(claim("owns")), b.Page(claim("gone"))
		for _, p := range []*lockerkit.Page[struct{}]{waits, owns, gone} {
			p.Queue("entry")
		}
		owns.Own(time.Hour)
		gone.Leave()
		for owner, want := range map[string]bool{"waits": true, "owns": false, "gone": false, "stranger": false} {
			if got := b.Granted(owner, time.Second); got != want {
				t.Errorf("a grant to the claim that %s is news: %v", owner, got)
			}
			if b.Granted(owner, time.Second) {
				t.Errorf("a second grant to the claim that %s is news", owner)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if want := (ended{"waits", "entry"}); !waits.Over() || owns.Over() || !over.are(want) {
			t.Errorf("the offer is over: %v, the lease: %v, and %v are, want %v", waits.Over(), owns.Over(), over, want)
		}
		owns.Leave()
		closed(t, life)
	})
}

// An Acquire may find the grant before the message of it is heard. Others want
// the mutex too, so that the two take it in turn.
func TestALateGrantDoesNotShortenALease(t *testing.T) {
	life := opened(t)
	b, _ := bookOf(life)
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for p := b.Page(claim("other")); ; runtime.Gosched() {
				select {
				case <-done:
					return
				default:
					p.MayQueue()
				}
			}
		})
	}
	var pages []*lockerkit.Page[struct{}]
	for range 100 {
		p := b.Page(claim("a"))
		pages = append(pages, p)
		p.Queue("entry")
		var both sync.WaitGroup
		both.Go(func() { b.Granted("a", time.Second) })
		both.Go(func() { p.Own(time.Hour) })
		both.Wait()
	}
	time.Sleep(time.Second)
	for _, p := range pages {
		if p.Over() {
			t.Error("the lease has the length of the offer")
			break
		}
		p.Leave()
	}
	close(done)
	others.Wait()
	closed(t, life)
}

func TestALeftClaimIsTakenOutOfItsQueueAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := opened(t)
		b, over := bookOf(life)
		waits, owns := b.Page(claim("waits")), b.Page(claim("owns"))
		waits.Queue("entry")
		owns.Own(time.Minute)
		b.Left("waits")
		b.Left("owns")
		if waits.MayQueue() {
			t.Error("it is in the queue that it has left")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if want := (ended{"owns", ""}); !over.are(want) {
			t.Errorf("%v are over, want %v: an owner has its time in any case", over, want)
		}
		closed(t, life)
	})
}

func TestAWatchEndsWhenTheClaimLeaves(t *testing.T) {
	life := opened(t)
	b, _ := bookOf(life)
	for name, leave := range map[string]func(p *lockerkit.Page[struct{}]){
		"Leave":    func(p *lockerkit.Page[struct{}]) { p.Leave() },
		"LeaveAll": func(*lockerkit.Page[struct{}]) { b.LeaveAll() },
		"Own":      func(p *lockerkit.Page[struct{}]) { p.Own(time.Hour) },
		"Granted":  func(p *lockerkit.Page[struct{}]) { b.Granted(p.Claim.Owner, time.Hour) },
	} {
		p, watched := b.Page(claim(name)), true
		p.Queue("entry")
		if p.OnLeave(func() { watched = false }); !watched {
			t.Errorf("%s: the watch ended before", name)
		}
		if leave(p); watched {
			t.Errorf("%s: the watch goes on", name)
		}
		watched = true
		if p.OnLeave(func() { watched = false }); watched {
			t.Errorf("%s: a watch begins after it", name)
		}
		p.Leave()
	}
	closed(t, life)
}

func TestNothingIsOverAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := opened(t)
		b, over := bookOf(life)
		b.Page(claim("queued")).Queue("entry")
		b.Page(claim("owner")).Own(time.Minute)
		closed(t, life)
		if left := b.LeaveAll(); !slices.Equal(left, []string{"entry"}) {
			t.Errorf("%v leave, want the one in the queue", left)
		}
		time.Sleep(time.Hour)
		if !over.are() {
			t.Errorf("%v are over after Close, which leaves keys to their TTL", over)
		}
	})
}

// A guard that does not know that its claim was in a queue would try it for
// ever.
func TestAGuardGivesUpAClaimThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := opened(t)
		b, _ := bookOf(life)
		waits, owns := b.Page(claim("waits")), b.Page(claim("owns"))
		waits.Queue("entry")
		owns.Own(time.Second)
		time.Sleep(2 * locker.QueueLife)
		synctest.Wait()
		for _, p := range []*lockerkit.Page[struct{}]{waits, owns} {
			a, err := p.AnswerEnded(locker.Try{Queued: true})
			if !p.Ended() || err != nil || a != (locker.Answer{}) {
				t.Errorf("%s: %+v, %v, want that it is not in the queue any more", p.Claim.Owner, a, err)
			}
		}
		if a, err := waits.AnswerEnded(locker.Try{}); !a.Queued || !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("%+v, %v, want that it may be in the queue", a, err)
		}
		if a, err := owns.AnswerEnded(locker.Try{}); err != nil || a != (locker.Answer{}) {
			t.Errorf("%+v, %v, want that it does not own its key", a, err)
		}
		closed(t, life)
	})
}
