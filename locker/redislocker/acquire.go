package redislocker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
)

const (
	queueLife = 2 * time.Second // of a wait queue, from the last look of a waiter
	fenceLife = 24 * time.Hour  // of a fence counter, beyond the lease's TTL; the server's clock does without it too
)

// state is what the locker keeps in a claim.
type state struct {
	keys   keys
	value  string // stored behind the owner id: the same in every try, for redislock's release compares all of it
	travel travel
	lock   *redislock.Lock // nil until a try has succeeded
	place  string          // in the wait queue, kept for when it is woken but beaten; "": none yet
}

func (l *Locker) state(c *guard.Claim) *state {
	st, ok := c.State.(*state)
	if !ok {
		st = &state{
			keys: l.keys(c.Key), value: l.describe(c.Holder),
			travel: travel{Scripter: l.client, locker: l},
		}
		c.State = st
		c.Holder.Instance = l.instance
	}
	return st
}

// Acquire tries once, in one round trip, or in two if the key is held: the second finds out by whom, and queues. If
// earlier tries found it held, the first round trip only looks. See [guard.Locker] for the errors; a refusal by the
// server that a new try cannot change (rights, a key of another type) is none of those and says what to do.
func (l *Locker) Acquire(ctx context.Context, c *guard.Claim) (token uint64, err error) {
	if err := l.enter(); err != nil {
		return 0, err
	}
	defer l.calls.Done()
	k := l.state(c).keys
	if c.Tries == 0 && !c.Yield {
		if token, err = l.try(ctx, c, k); !errors.Is(err, redislock.ErrNotObtained) {
			return token, err
		}
	}
	if c.Waits {
		l.inbox.open()
	}
	held, err := l.look(ctx, c, k)
	switch {
	case err != nil:
		return 0, l.tryError(err)
	case held != nil:
		return 0, held
	}
	if token, err = l.try(ctx, c, k); errors.Is(err, redislock.ErrNotObtained) {
		return 0, &guard.HeldError{Key: c.Key} // was free a moment ago
	}
	return token, err
}

// try returns redislock.ErrNotObtained if somebody else holds the key.
func (l *Locker) try(ctx context.Context, c *guard.Claim, k keys) (token uint64, err error) {
	st := l.state(c)
	st.travel.behind = nil
	if c.Fencing {
		st.travel.behind = fenceCall(c, k)
	}
	lock, err := redislock.New(&st.travel).Obtain(ctx, k.lock, c.TTL,
		&redislock.Options{Token: c.Owner, Metadata: st.value})
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return 0, err
	case err != nil:
		return 0, l.tryError(err)
	}
	st.lock = lock
	if !c.Fencing {
		return 0, nil
	}
	return l.fenced(c, st.travel.answer)
}

// look returns who holds the key, or nil if it is free or c's own, as after a try without an answer. If c waits for the
// key, it is queued then, and hears of a release in the inbox.
func (l *Locker) look(ctx context.Context, c *guard.Claim, k keys) (*guard.HeldError, error) {
	st := l.state(c)
	live := l.inbox.live.Load() // before the look: whoever sleeps must have looked after the subscription began
	answer := l.run(ctx, newCall(queueScript, 2, k.lock, k.wait(),
		l.id, flag(c.Waits), flag(c.Yield), st.place, life, l.inboxes, wantedWord+c.Key))[0]
	parts, err := answer.Slice()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil //nolint:nilnil // free: nobody holds it, and that is no error
	case err != nil:
		return nil, err
	case len(parts) != 3:
		return nil, errNoAnswer
	}
	ttl, _ := parts[0].(int64)
	value, _ := parts[1].(string)
	st.place, _ = parts[2].(string)
	if strings.HasPrefix(value, c.Owner) {
		return nil, nil //nolint:nilnil // ours
	}
	c.Queued = c.Waits && live
	remaining := time.Duration(max(ttl, 0)) * time.Millisecond
	return &guard.HeldError{Key: c.Key, Remaining: remaining, Holder: holder(value)}, nil
}

// fenced returns the fencing token that came with a try that succeeded. Without one the try as a whole did not, and the
// key is given back if no other try will follow.
func (l *Locker) fenced(c *guard.Claim, answer command) (uint64, error) {
	token, err := token(answer)
	switch {
	case err == nil:
		return token, nil
	case errors.Is(err, redis.Nil):
		return 0, unclear(errors.New("the key was deleted at once"))
	case l.refused(err):
		l.Abandon(c)
	}
	return 0, l.tryError(err)
}

// Fence reserves a block of tokens, in one round trip.
func (l *Locker) Fence(ctx context.Context, c *guard.Claim) (uint64, error) {
	if err := l.enter(); err != nil {
		return 0, err
	}
	defer l.calls.Done()
	token, err := token(l.run(ctx, *fenceCall(c, l.keys(c.Key)))[0])
	if errors.Is(err, redis.Nil) {
		return 0, errNotOwner
	}
	return token, leaseError(err)
}

func fenceCall(c *guard.Claim, k keys) *call {
	call := newCall(fenceScript, 2, k.lock, k.fence(), c.Owner, guard.FenceBlock, (fenceLife + c.TTL).Milliseconds())
	return &call
}

func token(answer command) (uint64, error) {
	text, err := answer.Text()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fencing token: %w", err)
	}
	return n, nil
}
