package ctl

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/locker"
)

// Kinds of violations.
const (
	badCheck   = "check"
	badOverlap = "overlap"
	badPermits = "permits"
	badToken   = "token"
	badLease   = "lease"
	badWakeUp  = "wake-up"
	badNothing = "nothing"
)

// A key may be free for this long while somebody waits. The message about an
// offer is lost, the waiter looks again, and the offer was to somebody who
// waits no more.
const freeMost = locker.LookEvery + time.Second + 500*time.Millisecond

// court judges a storm. Callers tell of their turns.
type court struct {
	mu       sync.Mutex // guards what follows; never held across I/O
	rooms    map[string]*room
	turns    int
	pace     []time.Duration // of hand-overs between guards
	free     time.Duration   // the longest time for which a key was free while somebody waited
	failed   int             // calls without an answer
	failure  string          // of the first one
	lost     int             // leases
	changed  bool            // the primary did
	silence  time.Duration   // the longest time without an answer to somebody who asks again and again
	violated []*violation
}

// violation is what a server did that it must not.
type violation struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	First string `json:"first"`
}

// room is a key.
type room struct {
	judge.Floor[*turn]

	waiting []*turn
	since   time.Time // when there came to be room for one more
	by      int       // the guard of the turn that ended last
	token   uint64    // the highest
}

// turn is a caller that waits for a key, and then has it.
type turn struct {
	key   string
	guard int
	limit int
	asked time.Time
}

// AtMost implements [judge.Guest].
func (t *turn) AtMost() int { return t.limit }

func (c *court) violate(kind, format string, args ...any) {
	i := slices.IndexFunc(c.violated, func(v *violation) bool { return v.Kind == kind })
	if i < 0 {
		i = len(c.violated)
		c.violated = append(c.violated, &violation{Kind: kind, First: fmt.Sprintf(format, args...)})
	}
	c.violated[i].Count++
}

// asks notes that a caller waits for its turn.
func (c *court) asks(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.asked = time.Now()
	if c.rooms == nil {
		c.rooms = map[string]*room{}
	}
	if c.rooms[t.key] == nil {
		c.rooms[t.key] = &room{since: t.asked}
	}
	r := c.rooms[t.key]
	r.waiting = append(r.waiting, t)
}

// enters judges that t begins. The token of a turn that is not alone says
// nothing.
func (c *court) enters(t *turn, token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, now := c.rooms[t.key], time.Now()
	c.watch(t.key, now)
	if t.limit == 1 && len(r.In) == 0 && r.by != t.guard && t.asked.Before(r.since) {
		c.pace = append(c.pace, now.Sub(r.since))
	}
	if t.limit == 1 && token <= r.token {
		c.violate(badToken, "%s: token %d after %d", t.key, token, r.token)
	}
	r.token, r.since = max(r.token, token), now
	c.turns++
	r.waiting = slices.DeleteFunc(r.waiting, func(o *turn) bool { return o == t })
	n, most := r.Enter(t)
	if n > most {
		kind := badOverlap
		if t.limit > 1 {
			kind = badPermits
		}
		c.violate(kind, "%s: %d at once where %d may be", t.key, n, most)
	}
}

// watch judges how long key was free while somebody waited. The caller has
// c.mu.
func (c *court) watch(key string, now time.Time) {
	r := c.rooms[key]
	if len(r.waiting) == 0 || len(r.In) >= r.waiting[0].limit {
		return
	}
	from := r.since
	if asked := r.waiting[0].asked; asked.After(from) {
		from = asked
	}
	free := now.Sub(from)
	c.free = max(c.free, free)
	if !c.changed && free > freeMost+2*c.silence {
		c.violate(badWakeUp, "%s was free for %v while somebody waited", key, free.Round(time.Millisecond))
	}
}

// leaves notes that the turn has ended.
func (c *court) leaves(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rooms[t.key]
	r.Leave(func(o *turn) bool { return o == t })
	r.since, r.by = time.Now(), t.guard
}

// ends notes how the call of t has ended. A call that the end of the storm ends
// has not failed.
func (c *court) ends(t *turn, err error, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rooms[t.key]
	if slices.Contains(r.waiting, t) {
		c.watch(t.key, time.Now())
		r.waiting = slices.DeleteFunc(r.waiting, func(o *turn) bool { return o == t })
	}
	switch {
	case errors.Is(err, guard.ErrLeaseLost):
		c.lost++
	case err != nil && !over:
		if c.failed++; c.failed == 1 {
			c.failure = err.Error()
		}
	}
}

// answered notes an answer to somebody who asks again and again.
func (c *court) answered(silence time.Duration, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silence, c.changed = max(c.silence, silence), c.changed || changed
}

// count returns how often a kind was violated.
func (c *court) count(kind string) int {
	for _, v := range c.violated {
		if v.Kind == kind {
			return v.Count
		}
	}
	return 0
}

// close judges the storm as a whole, after the last call.
func (c *court) close(ttl time.Duration) {
	if c.lost > 0 && c.silence < ttl/2 {
		c.violate(badLease, "%d leases were lost, and the server was silent for %v at most", c.lost,
			c.silence.Round(time.Millisecond))
	}
	if c.turns == 0 {
		c.violate(badNothing, "no call got a key")
	}
}
