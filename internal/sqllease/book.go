package sqllease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const (
	// pollFloor is the shortest pause between two looks at the claims that wait
	// here.
	pollFloor = 10 * time.Millisecond
	// pollIdle is the pause if claims only own their keys here.
	pollIdle = 40 * time.Millisecond
	// pollShare bounds the share of the time that looks may take. The pause is
	// that many times as long as the look before.
	pollShare = 4
	pollCeil  = 60 * time.Millisecond
	pollLimit = time.Second
	pollPage  = 500
)

// looks notes that a request is about to be sent that may queue c, or see it
// queued.
func (l *Locker) looks(c *locker.Claim) {
	w := &waiting{c, time.Now()}
	l.mu.Lock()
	l.queued[c.Owner] = w
	l.mu.Unlock()
	l.ring()
}

// owns notes that owner owns key here.
func (l *Locker) owns(key, owner string) {
	l.mu.Lock()
	l.owned[owner] = key
	l.mu.Unlock()
	l.ring()
}

// forget drops what is known of owner.
func (l *Locker) forget(owner string) {
	l.mu.Lock()
	delete(l.queued, owner)
	delete(l.owned, owner)
	l.mu.Unlock()
}

func (l *Locker) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// poll finds out by itself what a message would tell: which claims were granted
// their keys, and which keys others wait for. It asks nothing while no claim
// waits or owns a key here.
func (l *Locker) poll() {
	var took time.Duration
	for l.ctx.Err() == nil {
		keys, waits := l.watched()
		if len(keys) == 0 {
			select {
			case <-l.bell:
			case <-l.ctx.Done():
			}
			continue
		}
		if !sleep(l.ctx, pauseAfter(took, waits)) {
			return
		}
		began := time.Now()
		for len(keys) > 0 {
			n := min(len(keys), pollPage)
			l.look(keys[:n])
			keys = keys[n:]
		}
		took = time.Since(began)
	}
}

// pauseAfter returns the pause after a look that took so long. waits says that
// a claim waits here. Processes that began together drift apart.
func pauseAfter(took time.Duration, waits bool) time.Duration {
	floor := pollIdle
	if waits {
		floor = pollFloor
	}
	return max(floor, min(pollShare*took, pollCeil)) + rand.N(floor/4)
}

// watched returns the keys for which claims wait here or which they own here.
// waits says that one of them waits.
func (l *Locker) watched() (keys []string, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(map[string]bool, len(l.queued)+len(l.owned))
	add := func(key string) {
		if !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	for _, w := range l.queued {
		add(w.claim.Key)
	}
	for _, key := range l.owned {
		add(key)
	}
	return keys, len(l.queued) > 0
}

// look reads the rows of keys, and tells the guard what is new. An error costs
// time only: the next look comes soon.
func (l *Locker) look(keys []string) {
	ctx, cancel := context.WithTimeout(l.ctx, pollLimit)
	defer cancel()
	sent := time.Now()
	rows, err := l.table.read(ctx, keys, false)
	if err != nil {
		return
	}
	l.joins(rows)
	for key, r := range rows {
		for _, own := range r.owners() {
			l.tell(key, r, own, sent)
		}
	}
}

// tell tells the guard what it does not know of an owner of key.
func (l *Locker) tell(key string, r *row, own share, sent time.Time) {
	behind := r.waiting()
	l.mu.Lock()
	w := l.queued[own.Owner]
	_, owned := l.owned[own.Owner]
	if w != nil {
		delete(l.queued, own.Owner)
	}
	if owned && behind > 0 {
		delete(l.owned, own.Owner) // once: it will hand the key over
	}
	l.mu.Unlock()
	switch {
	case w != nil:
		left := time.Duration(own.Ends-r.now)*time.Microsecond - l.table.Grain
		l.grant(w, locker.Offer{Length: left, Token: uint64(own.Token), Waiting: behind}, sent)
	case owned && behind > 0:
		l.waker.Wanted(key)
	}
}

// grant tells the guard that the claim of w owns its key. o is what the table
// says, and o.Length the rest of the offer by a look sent at that time. Nobody knows exactly when
// the key was handed over: a look that was answered before the write could be
// seen may have been sent after the time in the row. The guard counts the offer
// from the last look of the claim, which was not sent later than w.sent. If the
// row may end before, the length is not told, and the guard asks again.
func (l *Locker) grant(w *waiting, o locker.Offer, sent time.Time) {
	c, left := w.claim, o.Length
	if o.Length = 0; left+sent.Sub(w.sent) >= c.ShortOffer() {
		o.Length = c.ShortOffer()
	}
	if !c.Fencing {
		o.Token = 0
	}
	if o.Waiting == 0 {
		l.owns(c.Key, c.Owner) // before the guard knows it and may release it
	}
	if !l.waker.Granted(c.Key, c.Owner, o) {
		l.giveBack(c.Key, c.Owner)
	}
}

// sleep blocks for d. It returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// joins tells the guard of claims that waited here and will find a record now.
func (l *Locker) joins(rows map[string]*row) {
	recorded := false
	for _, r := range rows {
		recorded = recorded || r.counting() != nil
	}
	j, ok := l.waker.(locker.Joiner)
	if !recorded || !ok {
		return
	}
	var found []*locker.Claim
	l.mu.Lock()
	for owner, w := range l.queued {
		r := rows[w.claim.Key]
		if w.claim.Recall && r != nil && r.counting() != nil && !r.owned(owner) && !r.waits(owner) {
			found = append(found, w.claim)
			delete(l.queued, owner)
		}
	}
	l.mu.Unlock()
	for _, c := range found {
		j.Recorded(c.Key, c.Owner, "")
	}
}

const (
	sweepEvery = 5 * time.Minute
	sweepAfter = 20 * time.Minute // for which nobody has owned a key when its row goes
	sweepLimit = 5 * time.Second
)

// sweep deletes the rows of keys that nobody uses, from time to time. A row
// that is deleted and comes back has its tokens from the clock, which is ahead.
func (l *Locker) sweep() {
	for sleep(l.ctx, sweepEvery/2+rand.N(sweepEvery)) {
		for more := true; more; {
			ctx, cancel := context.WithTimeout(l.ctx, sweepLimit)
			more, _ = Sweep(ctx, l) // the next process or turn tries again
			cancel()
		}
	}
}

// Sweep deletes some rows of keys that nobody uses. It returns whether there may
// be more. A Locker calls it by itself.
func Sweep(ctx context.Context, l *Locker) (more bool, err error) {
	return l.table.sweep(ctx, sweepAfter)
}
