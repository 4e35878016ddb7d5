package ctl

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
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

// court judges a storm. Callers tell of their turns. A machine that is too slow
// condemns no server: nothing is judged of a lease that has ended by this
// machine's clock, and a wait is also counted in answers of the server.
type court struct {
	mu       sync.Mutex // guards what follows; never held across I/O
	rooms    map[string]*room
	answers  int // of the server, to somebody who asks each askEvery
	turns    int
	pace     []time.Duration // of hand-overs between guards
	free     time.Duration   // the longest time for which a key was free while somebody waited
	failed   int             // calls without an answer
	failure  string          // of the first one
	lost     int             // leases
	forgot   int             // of those, the server ended before their time
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
	since   instant // when there came to be room for one more
	by      int     // the guard of the turn that ended last
	token   uint64  // the highest
}

// instant is a time on two clocks.
type instant struct {
	at      time.Time
	answers int
}

// turn is a caller that asks for a key, and then has it.
type turn struct {
	key   string
	guard int
	limit int
	try   bool // the caller does not wait
	asked instant
	floor uint64       // the highest token that was known when the caller asked
	lease *guard.Lease // nil before the turn begins; a test may leave it nil
}

// AtMost implements [judge.Guest].
func (t *turn) AtMost() int { return t.limit }

// ended reports whether the lease may not be trusted any more.
func (t *turn) ended() bool { return t.lease != nil && t.lease.Err() != nil }

// forgotten reports whether the server ended the lease before its time. err is
// that of the call.
func (t *turn) forgotten(err error) bool {
	return t.lease != nil && time.Now().Before(t.lease.Deadline()) && !errnote.Is(err, errnote.Deadline)
}

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
	t.asked = c.now()
	if c.rooms == nil {
		c.rooms = map[string]*room{}
	}
	r := c.rooms[t.key]
	if r == nil {
		r = &room{since: t.asked}
		r.Excused = (*turn).ended
		c.rooms[t.key] = r
	}
	t.floor = r.token
	if !t.try {
		r.waiting = append(r.waiting, t)
	}
}

// taken returns a key that a guard other than this one has now, or "".
func (c *court) taken(but int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.rooms { // in any order
		if len(r.In) > 0 && r.In[0].limit == 1 && r.In[0].guard != but {
			return key
		}
	}
	return ""
}

// now reads both clocks. The caller has c.mu.
func (c *court) now() instant { return instant{time.Now(), c.answers} }

// enters judges that t begins. The token of a turn that is not alone says
// nothing. That of a turn which was asked for before another one began may be
// lower: a resource refuses it.
func (c *court) enters(t *turn, token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, now := c.rooms[t.key], c.now()
	c.watch(t.key, now)
	if t.limit == 1 && !t.try && len(r.In) == 0 && r.by != t.guard && t.asked.at.Before(r.since.at) {
		c.pace = append(c.pace, now.at.Sub(r.since.at))
	}
	if t.limit == 1 && (token <= t.floor || token == r.token) && !t.ended() {
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
func (c *court) watch(key string, now instant) {
	r := c.rooms[key]
	if len(r.waiting) == 0 || len(r.In) >= r.waiting[0].limit {
		return
	}
	from := r.since
	if asked := r.waiting[0].asked; asked.at.After(from.at) {
		from = asked
	}
	free := now.at.Sub(from.at)
	c.free = max(c.free, free)
	if !c.changed && free > freeMost+2*c.silence && now.answers-from.answers >= int(freeMost/askEvery) {
		c.violate(badWakeUp, "%s was free for %v while somebody waited", key, free.Round(time.Millisecond))
	}
}

// leaves notes that the turn has ended.
func (c *court) leaves(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rooms[t.key]
	r.Leave(func(o *turn) bool { return o == t })
	r.since, r.by = c.now(), t.guard
}

// ends notes how the call of t has ended. A call that the end of the storm ends
// has not failed.
func (c *court) ends(t *turn, err error, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rooms[t.key]
	if slices.Contains(r.waiting, t) {
		c.watch(t.key, c.now())
		r.waiting = slices.DeleteFunc(r.waiting, func(o *turn) bool { return o == t })
	}
	switch {
	case errors.Is(err, guard.ErrLeaseLost):
		c.lost++
		if t.forgotten(err) {
			c.forgot++
		}
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
	c.answers++
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
func (c *court) close() {
	if c.forgot > 0 {
		c.violate(badLease, "the server ended %d leases before their time", c.forgot)
	}
	if c.turns == 0 {
		c.violate(badNothing, "no call got a key")
	}
}
