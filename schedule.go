package guard

import "time"

// When a gate's contender tries next, and what the store and the other instances have to say about it.

// missed plans the next try after one that found the key held (by h) or got no answer (but a fault): after the pause, or
// when the holder's lease ends if that is sooner, or at once if a wake-up came meanwhile. Whoever is queued will be
// woken, and the longest pauses are only there for wake-ups that get lost.
func (gt *gate) missed(h *HeldError, fault error, queued bool, b backoff, now time.Time) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	pause := b.pause(gt.tries)
	if queued {
		pause = b.long()
	}
	gt.tries++
	gt.held, gt.seen, gt.fault = h, now, fault
	if h != nil {
		gt.owed = gt.woken
		if h.Remaining > 0 {
			pause = min(pause, h.Remaining)
		}
	}
	if gt.woken {
		pause = 0
	}
	gt.next = now.Add(pause)
}

// freed plans the next try after a release. An instance that was woken gets its time: whoever waits here is queued
// behind it already, whoever comes in the next moments queues instead of trying. If others wait but could not be woken,
// they find the key only when they look, so this instance stands back for a long pause. It returns for how long the gate
// must be kept for that, even if nobody uses it.
func (gt *gate) freed(f Freed, queued bool, b backoff, now time.Time) (keep time.Duration) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	gt.wanted = f.Waiting > 0
	switch {
	case f.Waiting == 0, gt.woken:
		return 0
	case !f.Woken:
		keep = b.long()
		gt.next = now.Add(keep)
	case queued:
		gt.next = now.Add(b.long())
	default:
		keep = courtesy
		gt.yield = now.Add(keep)
	}
	return keep
}

// courtesy is how long an instance that was woken may take to acquire the key before the releaser tries again.
const courtesy = 5 * time.Millisecond

// beginTry notes that a try is sent. It returns how many tries in a row have found the key held, 0 if a wake-up has come
// since, and whether the try must leave a free key to others.
func (gt *gate) beginTry(now time.Time) (heldTries int, yield bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.held != nil && !gt.woken {
		heldTries = gt.tries
	}
	yield = now.Before(gt.yield)
	gt.woken, gt.yield = false, time.Time{}
	select {
	case <-gt.poke: // the wake-up that this try is for
	default:
	}
	return heldTries, yield
}

// due returns how long the contender must pause before its next try.
func (gt *gate) due(now time.Time) time.Duration {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.next.Sub(now)
}

// pokes returns what ends the contender's pause early.
func (gt *gate) pokes() <-chan struct{} {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.poke == nil {
		gt.poke = make(chan struct{}, 1)
	}
	return gt.poke
}

// beginRelease notes that the key is about to be free: a wake-up from now on is for this instance, even if it comes
// before the answer. It reports whether anybody stands in line here, and whether other instances are known to wait.
func (gt *gate) beginRelease(gr *grant) (here, elsewhere bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.grant == gr {
		gt.grant = nil
	}
	return gt.line.length > 0, gt.wanted
}

// wake ends the contender's pause, and reports whether anybody here waits for the key.
func (gt *gate) wake() bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gt.grant != nil {
		return false
	}
	if gt.floor == nil { // passed on, but whoever comes next must not sit out a pause that was for those in the queue
		gt.next = time.Time{}
		return false
	}
	gt.woken, gt.owed, gt.next = true, true, time.Time{}
	if gt.poke != nil {
		select {
		case gt.poke <- struct{}{}:
		default: // one is there already
		}
	}
	return true
}

// want notes whether other instances wait for the key. If they do, a tenure ends after one pass over those in line now.
func (gt *gate) want(wanted bool) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if wanted && !gt.wanted && gt.grant != nil {
		gt.grant.shorten(gt.line.length)
	}
	gt.wanted = wanted
}
