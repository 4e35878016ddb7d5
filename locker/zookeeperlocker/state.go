package zookeeperlocker

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// state is what the locker keeps of a claim. Locker.mu guards it. The calls of
// a claim, which never overlap while it is in a queue, read entry without it,
// because nothing else changes it.
type state struct {
	claim *locker.Claim // never changes
	entry string        // its path in the queue, from the first attempt to put it there
	gone  bool          // it was taken out of the queue for good

	// due is when the claim is over: as an owner that was not renewed, or in
	// the queue without a look. timer then calls timeUp. Both are zero while
	// neither can happen.
	due   time.Time
	timer *time.Timer
	owner bool // it has owned its key; due is then when the key is over for this process

	unwatch context.CancelFunc // ends the watch of entry; nil: there is none
}

// stateOf returns the state of c. It names the locker in c, once, because the
// guard reads c at any time afterwards.
func (l *Locker) stateOf(c *locker.Claim) *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	st, _ := c.State.(*state)
	if st == nil {
		st = &state{claim: c}
		c.State = st
		c.Holder.Instance = l.instance
	}
	return st
}

// dueIn sets the time at which the claim is over. The caller has l.mu.
func (l *Locker) dueIn(st *state, d time.Duration) {
	st.due = time.Now().Add(d)
	if st.timer == nil {
		st.timer = time.AfterFunc(d, func() { l.timeUp(st) })
	} else {
		st.timer.Reset(d)
	}
}

// queues notes that the claim may be in the queue from now on, under entry.
func (l *Locker) queues(st *state, entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st.entry = entry
	l.queued[st.claim.Owner] = st
	l.dueIn(st, locker.QueueLife)
}

// rejoins undoes queues, because the transaction was refused.
func (l *Locker) rejoins(st *state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st.timer.Stop()
	st.entry = ""
	delete(l.queued, st.claim.Owner)
}

// saw notes that the guard looks at the claim. It returns its path in the
// queue, or "" if it is not there.
func (l *Locker) saw(st *state) (entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if st.entry == "" || st.gone {
		return ""
	}
	l.dueIn(st, locker.QueueLife)
	return st.entry
}

// mayQueue reports whether the claim may be in the queue.
func (l *Locker) mayQueue(st *state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return st.entry != "" && !st.gone
}

// leaves notes that the claim is in no queue any more, and that nothing waits
// for its end. It returns the path that it may have had in the queue.
func (l *Locker) leaves(st *state) (entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out(st)
}

// out is leaves for a caller that has l.mu.
func (l *Locker) out(st *state) (entry string) {
	st.gone = st.gone || st.entry != ""
	delete(l.queued, st.claim.Owner)
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.unwatch != nil {
		st.unwatch()
	}
	return st.entry
}

// has notes that the claim owns its key for d from now at most. The caller has
// l.mu.
func (l *Locker) has(st *state, d time.Duration) {
	l.out(st)
	st.owner = true
	l.dueIn(st, d)
}

// over reports whether the claim's lease has ended, whatever ZooKeeper still
// says.
func (l *Locker) over(st *state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return st.owner && time.Now().After(st.due)
}

// timeUp clears up after a claim that is over. As an owner, it would keep its
// key from others for longer than a dead process would. In the queue, it was
// not looked at for QueueLife.
func (l *Locker) timeUp(st *state) {
	if l.life.Enter() != nil {
		return // Close leaves queues, and leaves keys to their TTL
	}
	defer l.life.Leave()
	l.mu.Lock()
	early := time.Now().Before(st.due) // it was put off meanwhile
	entry := ""
	if !early {
		entry = l.out(st)
	}
	l.mu.Unlock()
	if !early {
		l.abandon(false, st.claim.Key, st.claim.Owner, entry)
	}
}
