package guard

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// tryGrace is what the last try of a wait may take beyond its end, so that it is not doomed.
const tryGrace = 25 * time.Millisecond

// try sends one try. It returns a grant, or the error that ends the wait, or neither: then there may be another try.
func (c *call) try(ctx context.Context) (*grant, error) {
	if c.claim == nil {
		c.claim = c.newClaim(ctx)
	}
	c.attempts++
	c.claim.Tries, c.claim.Yield = c.gate.beginTry(time.Now())
	if c.claim.Unclear || c.once {
		c.claim.Tries, c.claim.Yield = 0, false // it may be ours already, or it is the only try
	}
	tryCtx, cancel := context.WithTimeout(ctx, c.tryLimit())
	defer cancel()
	sent := time.Now()
	token, err := c.guard.family.locker.Acquire(tryCtx, c.claim)

	if err == nil {
		return c.won(ctx, sent, token)
	}
	return nil, c.missed(err)
}

// missed plans what follows a try that gave no grant, and returns err if nothing does.
func (c *call) missed(err error) error {
	cfg := &c.guard.config
	var held *HeldError
	switch {
	case errors.As(err, &held):
		c.blocker = held.Holder
		queued := c.claim.Queued && held.Remaining > 0 // else nobody holds it who will wake us
		c.gate.missed(held, nil, queued, cfg.backoff, time.Now())
		return nil
	case errors.Is(err, ErrClosed):
		return err
	}
	c.claim.Unclear = true
	if !errors.Is(err, ErrUnavailable) { // trying again cannot help
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.gate.missed(nil, err, false, cfg.backoff, time.Now())
	return nil
}

// tryLimit bounds the next try, so that the wait ends in time.
func (c *call) tryLimit() time.Duration {
	limit, left := tryLimit(c.guard.ttl), time.Until(c.end(c.guard.ttl))
	if left > limit {
		return limit
	}
	return min(limit, left+tryGrace)
}

// won makes a grant of a try that succeeded, if the answer was not too slow and c still wants it.
func (c *call) won(ctx context.Context, sent time.Time, token uint64) (*grant, error) {
	cfg := &c.guard.config
	gr := newGrant(c.guard, c.gate, c.claim, sent, token)
	c.claim = nil // the grant's now
	now := time.Now()
	if gr.trust.left(now) < minRemaining(cfg.ttl) {
		c.discard(gr)
		err := fmt.Errorf("%w: the answer took %v of a TTL of %v", ErrUnavailable, now.Sub(sent), cfg.ttl)
		c.gate.missed(nil, err, false, cfg.backoff, now)
		return nil, nil
	}
	c.gate.hold(gr)
	if err := c.stopped(ctx); err != nil {
		c.decline(gr)
		return nil, err
	}
	return gr, nil
}

// newClaim makes a claim with an owner id that nobody has ever used.
func (c *call) newClaim(ctx context.Context) *Claim {
	cfg := &c.guard.config
	return &Claim{
		Key: c.key, Owner: newOwner(), TTL: cfg.ttl, Fencing: cfg.fencing, Waits: !c.once,
		Holder: Holder{
			Host: hostname(), PID: os.Getpid(), Since: time.Now(), Name: cfg.name,
			Traceparent: cfg.traceparent(ctx),
		},
	}
}

// newOwner returns OwnerLen random base64url characters: 128 bits.
func newOwner() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

var hostname = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		return "" // it is only for people to read
	}
	return name
})

// waitEnded is the error of a wait that ended with its ctx: ErrNotAcquired, ctx.Err() and its cause.
func waitEnded(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", ErrNotAcquired, cause)
	}
	return fmt.Errorf("%w: %w: %w", ErrNotAcquired, err, cause)
}
