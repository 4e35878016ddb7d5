package redislocker

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// Renew renews all leases in one round trip. In a cluster it takes one round
// trip per node, all at the same time. Renew reports each answer as soon as it
// is read. No answer waits for those behind it, or for another node.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.life.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.life.Leave()
	l.perNode(cs, func(node string, at []int) {
		calls := make([]call, len(at))
		for n, i := range at {
			st, ok := cs[i].State.(*state) // only read: a Begin or a Release may run beside this
			if !ok {
				st = &state{claim: cs[i], keys: l.names.keys(cs[i].Key), owner: cs[i].Owner}
			}
			calls[n] = st.renewCall()
		}
		// EVAL loads a script for the calls behind it, because a renewal has no
		// time for a second round trip.
		textFirst(calls)
		for len(calls) > 0 {
			missing := l.renew(ctx, node, calls, func(n int, err error) { answered(at[n], err) })
			calls, at = pick(calls, missing), pick(at, missing)
			textAll(calls) // their script has gone since, or they have moved to a node without it
		}
	})
}

// renew sends calls as one request, and returns the indices of the calls that
// failed because the server does not know the script.
func (s *server) renew(ctx context.Context, node string, calls []call,
	answered func(n int, err error),
) (missing []int) {
	all, cmds := make([]renewal, len(calls)), make([]redisconn.Answerable, len(calls))
	for n := range calls {
		all[n] = renewal{Cmd: redis.NewCmd(ctx, calls[n].line...), n: n, answered: answered}
		cmds[n] = &all[n]
	}
	s.conn.SendRenewals(ctx, node, cmds)
	for n := range all {
		if unknownScript(command{Cmd: all[n].Cmd}) && calls[n].line[0] == evalSHA {
			missing = append(missing, n)
		} else {
			all[n].tell()
		}
	}
	return missing
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
		r.answered(r.n, readRenewed(command{Cmd: r.Cmd}))
	}
}
