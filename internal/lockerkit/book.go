package lockerkit

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Book is what a Locker knows of its claims: which may be in a queue, and until
// when they and those that own a key last for this process. T is what the store
// keeps of a claim besides.
//
// A Book is safe for concurrent use.
type Book[T any] struct {
	life     *Life
	instance string
	over     func(c *locker.Claim, entry string)

	mu     sync.Mutex          // guards queued and the Pages; never held across I/O; a cancel is called under it
	queued map[string]*Page[T] // claims of this process that may be in a queue, by owner id
}

// NewBook returns a Book for a Locker whose claims are of instance. The Book
// calls over for a claim whose time is over, between Enter and Leave of life.
// entry is where the claim may be in the queue, or "". An owner would keep its
// key from others for longer than a dead process would. At a claim in the queue
// nobody has looked for QueueLife.
func NewBook[T any](life *Life, instance string, over func(c *locker.Claim, entry string)) *Book[T] {
	return &Book[T]{life: life, instance: instance, over: over, queued: map[string]*Page[T]{}}
}

// Page is what a Book has of a claim. The calls of a claim never overlap while
// it is in a queue.
type Page[T any] struct {
	Claim *locker.Claim // never changes
	Data  T

	book   *Book[T]
	entry  string // where it is in the queue, from the first attempt to put it there; only calls of the claim change it
	gone   bool   // it was taken out of the queue for good
	ended  bool   // by the Book, because its time was over; it never owns its key again
	leaves func() // called when the claim is in no queue any more; nil: nothing is

	// due is when the claim is over: as an owner that was not renewed, or in
	// the queue without a look. timer then calls timeUp. Both are zero while
	// neither can happen.
	due   time.Time
	timer *time.Timer
	owner bool // it has owned its key; due is then when the key is over for this process
}

// Page returns the Page of c. Page also names the Locker in c, once, because
// the guard reads c at any time afterwards.
func (b *Book[T]) Page(c *locker.Claim) *Page[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, _ := c.State.(*Page[T])
	if p == nil {
		p = &Page[T]{Claim: c, book: b}
		c.State = p
		c.Holder.Instance = b.instance
	}
	return p
}

// Granted notes that the claim of owner owns its key for d from now at most, if
// the claim may be in a queue. If not, it is no news: an Acquire has found the
// grant, and the claim has its full TTL, or the claim was given up.
func (b *Book[T]) Granted(owner string, d time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.queued[owner]
	if p != nil {
		p.own(d)
	}
	return p != nil
}

// Left notes that the claim of owner is not in its queue any more.
func (b *Book[T]) Left(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.queued[owner]; p != nil {
		p.leave()
	}
}

// LeaveAll is Leave for all claims.
func (b *Book[T]) LeaveAll() (entries []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.queued {
		entries = append(entries, p.leave())
	}
	return entries
}

// Entry returns where the claim is in the queue, or was. Only the calls of the
// claim may ask.
func (p *Page[T]) Entry() string { return p.entry }

// Queue notes that the claim may be in the queue from now on, at entry.
func (p *Page[T]) Queue(entry string) {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	p.entry = entry
	p.book.queued[p.Claim.Owner] = p
	p.dueIn(locker.QueueLife)
}

// Unqueue undoes Queue, because the request was refused.
func (p *Page[T]) Unqueue() {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	p.timer.Stop()
	p.entry = ""
	delete(p.book.queued, p.Claim.Owner)
}

// Look notes that the guard looks at the claim. Look returns where the claim is
// in the queue, or "" if it is not there.
func (p *Page[T]) Look() (entry string) {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	if !p.mayQueue() {
		return ""
	}
	p.dueIn(locker.QueueLife)
	return p.entry
}

// MayQueue reports whether the claim may be in the queue.
func (p *Page[T]) MayQueue() bool {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	return p.mayQueue()
}

func (p *Page[T]) mayQueue() bool { return p.entry != "" && !p.gone }

// OnLeave has f called when the claim is in no queue any more. A Page has one f
// at most.
func (p *Page[T]) OnLeave(f func()) {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	if p.leaves = f; p.gone {
		f()
	}
}

// Leave notes that the claim is in no queue any more, and that nothing waits
// for its end. Leave returns where the claim may have been in the queue.
func (p *Page[T]) Leave() (entry string) {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	return p.leave()
}

func (p *Page[T]) leave() (entry string) {
	p.gone = p.gone || p.entry != ""
	delete(p.book.queued, p.Claim.Owner)
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.leaves != nil {
		p.leaves()
	}
	return p.entry
}

// Ended reports whether the Book has ended the claim, because its time was
// over. Its owner id is being taken out of key and queue, so the claim must not
// be tried again.
func (p *Page[T]) Ended() bool {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	return p.ended
}

// AnswerEnded is the answer to a try of a claim that has Ended. A guard that
// does not know of a place in the queue is told that there may be one, so that
// it gives the claim up.
func (p *Page[T]) AnswerEnded(t locker.Try) (locker.Answer, error) {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	if t.Queued || p.owner {
		return locker.Answer{}, nil
	}
	return locker.Answer{Queued: true}, errEnded
}

var errEnded = fmt.Errorf("%w: the time of the claim was over before the answer", locker.ErrUnavailable)

// Own notes that the claim owns its key for d from now at most. Own returns
// false if the claim has Ended: its key is given back.
func (p *Page[T]) Own(d time.Duration) bool {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	if p.ended {
		return false
	}
	p.own(d)
	return true
}

func (p *Page[T]) own(d time.Duration) {
	p.leave()
	p.owner = true
	p.dueIn(d)
}

// Over reports whether the claim's lease has ended, whatever the server still
// says.
func (p *Page[T]) Over() bool {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	return p.owner && time.Now().After(p.due)
}

// dueIn sets the time at which the claim is over. The caller has the Book's mu.
func (p *Page[T]) dueIn(d time.Duration) {
	p.due = time.Now().Add(d)
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.timeUp)
	} else {
		p.timer.Reset(d)
	}
}

// timeUp clears up after a claim that is over.
func (p *Page[T]) timeUp() {
	if p.book.life.Enter() != nil {
		return // Close leaves queues, and leaves keys to their TTL
	}
	defer p.book.life.Leave()
	if entry, over := p.end(); over {
		p.book.over(p.Claim, entry)
	}
}

// end takes a claim that is over out of the Book, unless it was put off
// meanwhile.
func (p *Page[T]) end() (entry string, over bool) {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	if time.Now().Before(p.due) {
		return "", false
	}
	p.ended = true
	return p.leave(), true
}
