package redislocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

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

// renew sends calls as one request. It returns the indices of the calls that
// failed because the server does not know the script.
func (l *Locker) renew(ctx context.Context, node string, calls []call,
	answered func(n int, err error),
) (missing []int) {
	all, cmds := make([]renewal, len(calls)), make([]redisconn.Answerable, len(calls))
	for n := range calls {
		all[n] = renewal{Cmd: redis.NewCmd(ctx, calls[n].line...), n: n, answered: answered}
		cmds[n] = &all[n]
	}
	l.conn.SendRenewals(ctx, node, cmds)
	for n := range all {
		if unknown(command{Cmd: all[n].Cmd}) && calls[n].byName() {
			missing = append(missing, n)
		} else {
			all[n].tell()
		}
	}
	return missing
}

// spellFirst puts the text of each script into its first call.
func spellFirst(calls []call) {
	told := make(map[*script]bool, 2)
	for n := range calls {
		if s := calls[n].script; !told[s] {
			told[s] = true
			calls[n] = calls[n].spelled()
		}
	}
}

func pick[E any](from []E, places []int) []E {
	picked := make([]E, len(places))
	for i, p := range places {
		picked[i] = from[p]
	}
	return picked
}

// renewal is a command that reports its answer as soon as go-redis has read it.
type renewal struct {
	*redis.Cmd
	n        int
	answered func(n int, err error)
	told     bool
}

// NoRetry is called by go-redis.
func (r *renewal) NoRetry() bool { return true }

// SetErr is called by go-redis with the result of the command. A pipeline calls
// it for each answer before it reads the next one. An error may not be final,
// as when a slot has moved, so errors are reported at the end.
func (r *renewal) SetErr(err error) {
	r.Cmd.SetErr(err)
	if err == nil && r.Val() != nil {
		r.tell()
	}
}

func (r *renewal) tell() {
	if !r.told {
		r.told = true
		r.answered(r.n, renewed(command{Cmd: r.Cmd}))
	}
}
