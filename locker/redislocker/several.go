package redislocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// several is one AcquireAll.
type several struct {
	*Locker

	claims []*locker.Claim
	prefix bool // keys in front of a held one are kept
}

// acquire takes the keys. held is the place of the first that is held.
func (s several) acquire(ctx context.Context) (as []locker.Answer, held int, err error) {
	switch {
	case s.settings.replicas > 0:
		as, held, err = s.oneByOne(ctx)
	case s.conn.Cluster():
		as, held, err = s.onNodes(ctx)
	default: // all by one script
		return s.readAll(s.runCalls(ctx, s.call(s.claims, s.prefix))[0], len(s.claims))
	}
	if err == nil {
		s.takeBack(as, held)
	}
	return as, held, err
}

// call is a run of all.lua. All claims have the same TTL, and all or none want
// tokens.
func (s several) call(cs []*locker.Claim, prefix bool) call {
	args := make([]any, 2*len(cs), 3*len(cs)+3)
	args = append(args, flag(prefix), s.state(cs[0]).ttl, flag(cs[0].Fencing))
	for i, c := range cs {
		st := s.state(c)
		st.asked = true
		args[i], args[len(cs)+i] = st.keys.lock, st.keys.fence
		args = append(args, st.value)
	}
	return newCall(allScript, 2*len(cs), args...)
}

// readAll reads the answer of all.lua for n claims.
func (s *server) readAll(answer command, n int) (as []locker.Answer, held int, err error) {
	if answer.Err() != nil {
		return nil, 0, s.tryError(answer.Err())
	}
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
	as[held].Holder, as[held].Lingers = readHolder(value), lingers(value)
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
func (s several) onNodes(ctx context.Context) (as []locker.Answer, held int, err error) {
	cs := s.claims
	as, errs := make([]locker.Answer, len(cs)), make([]error, len(cs))
	for _, c := range cs {
		s.state(c) // before others read it
	}
	s.runPerNode(ctx, cs, func(i int) call { return s.call(cs[i:i+1], true) }, func(i int, answer command) {
		one, _, err := s.readAll(answer, 1)
		if errs[i] = err; err == nil {
			as[i] = one[0]
		}
	})
	held = slices.IndexFunc(as, func(a locker.Answer) bool { return !a.Acquired })
	if held < 0 {
		held = len(cs)
	}
	return as, held, joinErrors(errs)
}

// joinErrors joins the errors of several requests. ErrUnsent is kept only if it
// is true of each of them.
func joinErrors(errs []error) error {
	err := errors.Join(errs...)
	sent := slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, locker.ErrUnsent) })
	if sent && errors.Is(err, locker.ErrUnsent) {
		return fmt.Errorf("%w: %s", locker.ErrUnavailable, err.Error()) // without what it wraps
	}
	return err
}

// oneByOne takes each key by itself, one after the other up to the first that
// is held.
func (s several) oneByOne(ctx context.Context) (as []locker.Answer, held int, err error) {
	as = make([]locker.Answer, len(s.claims))
	for ; held < len(s.claims); held++ {
		as[held], err = s.Acquire(ctx, s.claims[held], locker.Try{})
		if err != nil || !as[held].Acquired {
			break
		}
	}
	if err != nil && held > 0 {
		err = joinErrors([]error{nil, err})
	}
	return as, held, err
}

// takeBack gives back the keys that claims own and should not, in the
// background. If a key is held, these are the keys behind it, and without
// prefix all keys.
func (s several) takeBack(as []locker.Answer, held int) {
	for i, c := range s.claims {
		if as[i].Acquired && held < len(as) && (i > held || !s.prefix) {
			as[i] = locker.Answer{}
			s.inbox.waker.Orphaned(c.Key, c.Owner)
		}
	}
}
