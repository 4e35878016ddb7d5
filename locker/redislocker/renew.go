package redislocker

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// Renew renews all leases in one round trip. In a cluster it takes one round
// trip per node, all at the same time. It reports each answer as soon as it is
// read. No answer waits for those behind it, or for another node.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.gate.Leave()
	l.perNode(cs, func(node string, at []int) {
		calls := make([]call, len(at))
		for n, i := range at {
			calls[n] = l.renewCall(cs[i])
		}
		// EVAL loads a script for the calls behind it, because a renewal has no
		// time for a second round trip.
		spellFirst(calls)
		missing := l.renew(ctx, node, calls, func(n int, err error) { answered(at[n], err) })
		if len(missing) == 0 {
			return
		}
		calls, at = pick(calls, missing), pick(at, missing)
		for n := range calls {
			calls[n] = calls[n].spelled() // their script has gone since, or they have moved to a node without it
		}
		l.renew(ctx, node, calls, func(n int, err error) { answered(at[n], err) })
	})
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

func (l *Locker) renewCall(c *locker.Claim) call {
	st, ok := c.State.(*state) // only read, because Abandon may run at the same time
	if !ok {
		st = &state{keys: l.keys(c.Key), owner: c.Owner}
	}
	if c.Limit > 1 {
		return newCall(stayScript, 2, st.keys.lock, st.keys.crowd, st.owner, st.entry, c.TTL.Milliseconds())
	}
	return newCall(renewScript, 1, st.keys.lock, st.owner, c.TTL.Milliseconds())
}

func renewed(answer command) error {
	if n, err := answer.Int(); err != nil {
		return leaseError(err)
	} else if n != 1 {
		return errNotOwner
	}
	return nil
}
