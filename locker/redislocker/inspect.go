package redislocker

import (
	"context"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var _ locker.Inspector = (*Locker)(nil)

// Inspect returns the holder of key and its waiters, in one round trip. The
// value may be from somebody else, such as a plain redislock user. The owner id
// is then the beginning of the value. The queue may still name a process that
// has died. It keeps its place for as long as others look there.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	s := locker.KeyState{Key: key}
	if err := l.gate.Enter(); err != nil {
		return s, err
	}
	defer l.gate.Leave()
	if err := l.fits(key); err != nil {
		return s, err
	}
	return l.inspected(key, l.run(ctx, l.inspectCall(key))[0])
}

func (l *Locker) inspectCall(key string) call {
	k := l.keys(key)
	return newCall(inspectScript, 4, k.lock, k.wait, k.crowd, l.recordName(key), locker.MaxListed)
}

// inspected reads the answer of inspect.lua.
func (l *Locker) inspected(key string, answer command) (locker.KeyState, error) {
	s := locker.KeyState{Key: key}
	parts, err := answer.Slice()
	if err == nil && len(parts) != 7 {
		err = errNoAnswer
	}
	if err != nil {
		return s, l.tryError(err)
	}
	ttl, _ := parts[0].(int64)
	value, _ := parts[1].(string)
	waiting, _ := parts[2].(int64)
	length, _ := parts[5].(int64)
	rest, _ := parts[6].(int64)
	s.Record = locker.RecordState{Size: int(length), Remaining: time.Duration(max(rest, 0)) * time.Millisecond}
	if ttl != -2 {
		s.Held, s.Remaining = true, time.Duration(max(ttl, 0))*time.Millisecond
		if s.Owners, s.Limit = claims(parts[4]); s.Owners == nil {
			s.Owner, s.Holder = value[:min(len(value), locker.OwnerLen)], holder(value)
		}
	}
	s.Waiting = int(waiting)
	s.Waiters, _ = claims(parts[3])
	return s, nil
}

// claims reads entries. It returns their claims, and the lowest limit of them.
func claims(part any) (all []locker.Waiter, limit int) {
	entries, _ := part.([]any)
	for _, e := range entries {
		if text, _ := e.(string); len(text) > entryHead {
			value := text[entryHead:]
			all = append(all, locker.Waiter{
				Owner: value[:min(len(value), locker.OwnerLen)], Holder: holder(value),
			})
			if n := limitOf(text); limit == 0 || n < limit {
				limit = n
			}
		}
	}
	return all, limit
}

// ForceRelease ends the hold of owner on key and hands the key on, as
// [Locker.Release] does. It tells the owner's process if that listens. It takes
// three round trips.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if len(owner) != locker.OwnerLen {
		return invalid("an owner id has %d characters", locker.OwnerLen)
	}
	s, err := l.Inspect(ctx, key) // for the id of its inbox
	if err != nil {
		return err
	}
	if err := l.gate.Enter(); err != nil {
		return err
	}
	defer l.gate.Leave()
	answer := l.run(ctx, l.releaseCall(key, l.keys(key), owner, "", ""))[0]
	if answer.Err() != nil {
		return l.tryError(answer.Err())
	}
	_, owned, err := released(answer.Val())
	switch {
	case err != nil:
		return err
	case !owned:
		return fmt.Errorf("redislocker: %w: that owner does not hold the key", locker.ErrLeaseLost)
	}
	// The message is a hint. Without the right to publish, or without a
	// listener, the holder renews in vain.
	for _, o := range append(s.Owners, locker.Waiter{Owner: s.Owner, Holder: s.Holder}) {
		if o.Owner == owner && o.Holder.Instance != "" {
			_ = l.conn.Publish(ctx, l.settings.prefix+":inbox:"+o.Holder.Instance, revokedWord+owner+" "+key)
		}
	}
	return nil
}
