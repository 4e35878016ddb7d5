package redislocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var _ locker.Several = (*Locker)(nil)

// AcquireAll takes one round trip. In a cluster it takes one for each node, all
// at the same time. With replicas, or on a server that is far away, it takes
// the keys one after the other.
func (l *Locker) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	if err := l.gate.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.gate.Leave()
	for _, c := range cs {
		if err := l.fits(c.Key); err != nil {
			return nil, 0, err
		}
	}
	if err := l.connected(ctx, cs[0].Key); err != nil {
		return nil, 0, err
	}
	switch {
	case l.settings.replicas > 0 || l.conn.Trip.Tight(ctx):
		as, held, err = l.oneByOne(ctx, cs)
	case l.conn.Cluster():
		as, held, err = l.onNodes(ctx, cs)
	default:
		return l.together(ctx, cs, prefix)
	}
	if err == nil && held < len(cs) {
		l.takeBack(cs, as, held, prefix)
	}
	return as, held, err
}

// together takes keys of one server by one script.
func (l *Locker) together(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	start := time.Now()
	answer := l.run(ctx, l.allCall(cs, prefix))[0]
	if answer.Err() != nil {
		return nil, 0, l.tryError(answer.Err())
	}
	l.conn.NoteTrip(start)
	return acquired(answer, len(cs))
}

// allCall is a run of all.lua. All claims have the same TTL, and all or none
// want tokens.
func (l *Locker) allCall(cs []*locker.Claim, prefix bool) call {
	args := make([]any, 2*len(cs), 3*len(cs)+3)
	args = append(args, flag(prefix), cs[0].TTL.Milliseconds(), flag(cs[0].Fencing))
	for i, c := range cs {
		st := l.state(c)
		st.asked = true
		args[i], args[len(cs)+i] = st.keys.lock, st.keys.fence
		args = append(args, st.value)
	}
	return newCall(allScript, 2*len(cs), args...)
}

// acquired reads the answer of all.lua for n claims.
func acquired(answer command, n int) (as []locker.Answer, held int, err error) {
	parts, err := answer.Slice()
	if err != nil || len(parts) < 3 || len(parts) > n+3 {
		return nil, 0, unclear(errors.Join(errNoAnswer, err))
	}
	place, _ := parts[0].(int64)
	if place < 0 || place > int64(n) {
		return nil, 0, unclear(errNoAnswer)
	}
	held = int(place)
	as = make([]locker.Answer, n+1) // one more, for the owner if no key is held
	if ttl, _ := parts[1].(int64); ttl > 0 {
		as[held].Remaining = time.Duration(ttl) * time.Millisecond
	}
	value, _ := parts[2].(string)
	as[held].Holder = holder(value)
	for i, part := range parts[3:] {
		as[i].Acquired = true
		if text, _ := part.(string); text != "" {
			if as[i].Token, err = parseToken(text); err != nil {
				return nil, 0, unclear(err)
			}
		}
	}
	return as[:n], held, nil
}

// onNodes takes each key by itself, those of each node in one request.
func (l *Locker) onNodes(ctx context.Context, cs []*locker.Claim) (as []locker.Answer, held int, err error) {
	as, errs := make([]locker.Answer, len(cs)), make([]error, len(cs))
	for _, c := range cs {
		l.state(c) // before others read it
	}
	l.perNode(cs, func(_ string, at []int) {
		calls := make([]call, len(at))
		for n, i := range at {
			calls[n] = l.allCall(cs[i:i+1], true)
		}
		for n, answer := range l.run(ctx, calls...) {
			if answer.Err() != nil {
				errs[at[n]] = l.tryError(answer.Err())
				continue
			}
			one, _, err := acquired(answer, 1)
			if errs[at[n]] = err; err == nil {
				as[at[n]] = one[0]
			}
		}
	})
	held = len(cs)
	for i := range cs {
		if !as[i].Acquired && held == len(cs) {
			held = i
		}
	}
	return as, held, ofSeveral(errs)
}

// ofSeveral joins the errors of several requests. ErrUnsent is kept only if it
// is true of each of them.
func ofSeveral(errs []error) error {
	err := errors.Join(errs...)
	sent := slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, locker.ErrUnsent) })
	if sent && errors.Is(err, locker.ErrUnsent) {
		return fmt.Errorf("%w: %s", locker.ErrUnavailable, err.Error()) // without what it wraps
	}
	return err
}

// oneByOne takes each key by itself, one after the other up to the first that
// is held.
func (l *Locker) oneByOne(ctx context.Context, cs []*locker.Claim) (as []locker.Answer, held int, err error) {
	as = make([]locker.Answer, len(cs))
	for ; held < len(cs); held++ {
		as[held], err = l.Acquire(ctx, cs[held], locker.Try{})
		if err != nil || !as[held].Acquired {
			break
		}
	}
	if err != nil && held > 0 {
		err = ofSeveral([]error{nil, err})
	}
	return as, held, err
}

// takeBack gives back the keys that cs own and should not, in the background.
// These are the keys behind the one at held, and without prefix all keys.
func (l *Locker) takeBack(cs []*locker.Claim, as []locker.Answer, held int, prefix bool) {
	for i, c := range cs {
		if as[i].Acquired && (i > held || !prefix) {
			as[i] = locker.Answer{}
			l.Abandon(c, false)
		}
	}
}

// ReleaseAll takes one round trip. In a cluster it takes one for each node, all
// at the same time.
func (l *Locker) ReleaseAll(
	ctx context.Context, cs, nexts []*locker.Claim, answered func(i int, r locker.Released, err error),
) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, locker.Released{}, err)
		}
		return
	}
	defer l.gate.Leave()
	results, errs := make([]locker.Released, len(cs)), make([]error, len(cs))
	l.perNode(cs, func(_ string, at []int) {
		calls := make([]call, len(at))
		for n, i := range at {
			calls[n] = l.releasing(cs[i], nexts[i])
		}
		for n, answer := range l.run(ctx, calls...) {
			results[at[n]], errs[at[n]] = freed(answer)
		}
	})
	for i := range cs {
		answered(i, results[i], errs[i])
	}
}
