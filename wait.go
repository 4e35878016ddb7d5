package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A call is one verb on its way to a lease: first to the floor of its gate, then to a grant.
type call struct {
	guard *Guard // resolved
	key   string
	patience

	gate     *gate // nil once it has been left
	waiter   waiter
	claim    *Claim // under which the next try is sent; nil: a new one
	attempts int
	blocker  Holder // the last holder seen
}

// patience is how long a verb waits.
type patience struct {
	start, until time.Time
	once         bool // one attempt, no wait
}

func (c *config) patience() patience {
	now := time.Now()
	return patience{start: now, until: now.Add(c.maxWait), once: c.maxWait == 0}
}

// end is when the last try must have ended: a short wait may take the full limit of one.
func (p patience) end(ttl time.Duration) time.Time {
	if first := p.start.Add(tryLimit(ttl)); first.After(p.until) {
		return first
	}
	return p.until
}

// wait begins l's turn on a grant, or returns why there will be none. It ends by max(until, try limit) plus 50 ms, or
// when ctx does, but does not interrupt a try in flight. handoff says that the grant came from another call.
func (c *call) wait(ctx context.Context, l *Lease) (handoff bool, err error) {
	c.waiter = waiter{terms: c.guard.terms(), joined: time.Now()}
	floor, err := c.gate.join(&c.waiter, c.refuse)
	for err == nil {
		var gr *grant
		if gr, err = c.acquire(ctx, floor); err != nil {
			break
		}
		l.grant = gr
		if gr.begin(l, c.guard.maxHold) {
			c.gate.started(&c.waiter, time.Now())
			return l.number > 1, nil
		}
		// The grant aged or was lost on its way from one call to the other: acquire again, first in line.
		c.discard(gr)
		floor = c.gate.rejoin(&c.waiter)
	}
	if errors.Is(err, errNoWait) {
		err = c.gate.refusal(time.Now())
	}
	return false, err
}

// acquire returns a grant: handed over in line, or won from the store.
func (c *call) acquire(ctx context.Context, floor bool) (*grant, error) {
	if !floor {
		gr, err := c.standInLine(ctx)
		if err == nil && gr != nil {
			if err = c.stopped(ctx); err != nil { // as the grant came
				c.decline(gr)
				gr = nil
			}
		}
		if gr != nil || err != nil {
			return gr, err
		}
	}
	gr, err := c.contend(ctx)
	if err != nil {
		c.pass()
	}
	return gr, err
}

// refuse decides whether c goes without waiting: it makes one attempt only, or waiting would not help.
func (c *call) refuse(ahead int, expected time.Duration) error {
	cfg := &c.guard.config
	switch {
	case c.once:
		return errNoWait
	case cfg.maxWaiters > 0 && ahead >= cfg.maxWaiters:
		return &refusedError{reason: fmt.Sprintf("%d calls wait for this key", ahead), expected: expected}
	case ahead > 0 && expected > 0 && expected >= time.Until(c.until): // the first in line may always wait
		return &refusedError{reason: "the expected wait is longer than MaxWait", expected: expected}
	}
	return nil
}

// errNoWait ends a wait that may not go on; the caller gets a HeldError, or the ErrUnavailable of the last try.
var errNoWait = errors.New("guard: would have to wait")

// standInLine waits until c is given the floor, with a grant or with nil.
func (c *call) standInLine(ctx context.Context) (*grant, error) {
	timer := time.NewTimer(time.Until(c.until))
	defer timer.Stop()
	var err error
	select {
	case gr := <-c.waiter.floor:
		return gr, nil
	case <-timer.C:
		err = errNoWait
	case <-ctx.Done():
		err = waitEnded(ctx)
	case <-c.guard.family.closing:
		err = ErrClosed
	}
	if !c.gate.quit(&c.waiter) { // given the floor at the same moment: it must go on
		c.decline(<-c.waiter.floor)
	}
	return nil, err
}

// decline passes the floor on, with gr if it can be used, without any I/O.
func (c *call) decline(gr *grant) {
	if gr != nil && c.gate.handOver(&c.waiter, gr) {
		return
	}
	if gr != nil {
		c.discard(gr)
	}
	c.pass()
}

// pass gives the floor to the next in line, or a wake-up that nobody here can use to the next instance.
func (c *call) pass() {
	if c.gate.pass(&c.waiter) {
		c.guard.family.locker.PassOn(c.key)
	}
}

// discard ends a grant that nobody will use, and leaves its release to the locker.
func (c *call) discard(gr *grant) {
	gr.finish()
	c.guard.family.locker.Abandon(gr.claim)
}

// leave ends the call's use of gate and family.
func (c *call) leave() {
	c.guard.family.gates.leave(c.gate)
	c.gate = nil
	c.guard.family.leave()
}

// contend tries for the key until it has a grant or the wait is over. c has the floor.
func (c *call) contend(ctx context.Context) (*grant, error) {
	for {
		err := c.pause(ctx)
		if err == nil {
			var gr *grant
			if gr, err = c.try(ctx); gr != nil {
				return gr, nil
			}
		}
		if err == nil && c.once {
			err = errNoWait
		}
		if err != nil {
			if c.claim != nil && c.claim.Unclear {
				c.guard.family.locker.Abandon(c.claim)
			}
			return nil, err
		}
	}
}

// pause waits until the next try is due, or fails if it never will be.
func (c *call) pause(ctx context.Context) error {
	if err := c.stopped(ctx); err != nil {
		return err
	}
	now := time.Now()
	pokes := c.gate.pokes() // before the look at what is due: a wake-up in between must not be lost
	d, left := c.gate.due(now), c.until.Sub(now)
	switch {
	case !now.Before(c.end(c.guard.ttl)):
		return errNoWait
	case c.once:
		return nil
	case left <= 0 && (c.attempts > 0 || c.waiter.floor != nil):
		return errNoWait
	case d <= 0:
		return nil
	}
	timer := time.NewTimer(min(d, left))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-pokes:
	case <-ctx.Done():
	case <-c.guard.family.closing:
	}
	if c.attempts > 0 && !time.Now().Before(c.until) {
		return errNoWait
	}
	return c.stopped(ctx)
}

// stopped returns why the wait ends at once, or nil.
func (c *call) stopped(ctx context.Context) error {
	select {
	case <-c.guard.family.closing:
		return ErrClosed
	case <-ctx.Done():
		return waitEnded(ctx)
	default:
		return nil
	}
}
