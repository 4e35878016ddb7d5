package postgreslocker

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

var _ locker.Several = (*Locker)(nil)

// group is an AcquireAll. It is one request.
type group struct {
	ctx     context.Context
	cs      []*locker.Claim
	holders []string
	channel string
	prefix  bool

	taken atomic.Bool // by the worker that sends it, or by the caller that gives up
	done  chan taken  // has room for the one result, so that nobody waits for the caller
}

// taken is what the function that all.sql defines returns.
type taken struct {
	held   int32
	holder string
	remain int64
	tokens []int64 // of the claims that own their keys now
	err    error
}

// AcquireAll takes one request.
func (l *Locker) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	if err := l.gate.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.gate.Leave()
	g := &group{
		ctx: ctx, cs: cs, holders: make([]string, len(cs)), channel: l.channelNow(), prefix: prefix,
		done: make(chan taken, 1),
	}
	for i, c := range cs {
		g.holders[i] = l.describe(c)
	}
	t := l.sendGroup(g)
	if t.err != nil {
		return nil, 0, t.err
	}
	as = make([]locker.Answer, len(cs))
	for i, token := range t.tokens {
		l.owns(cs[i].Key, cs[i].Owner, g.channel)
		as[i] = locker.Answer{Acquired: true, Token: tokenOf(cs[i], token)}
	}
	if held = int(t.held); held < len(cs) {
		as[held].Holder, as[held].Remaining = holderOf(t.holder), microseconds(t.remain)
	}
	return as, held, nil
}

// sendGroup blocks until g has an answer or its ctx ends.
func (l *Locker) sendGroup(g *group) taken {
	select {
	case l.groups <- g:
	case <-g.ctx.Done():
		return taken{err: errUnsent}
	}
	select {
	case t := <-g.done:
		return t
	case <-g.ctx.Done():
		if g.taken.CompareAndSwap(false, true) {
			return taken{err: errUnsent}
		}
		return taken{err: errTooLate}
	}
}

// acquireAll answers g, unless its caller has given up.
func (l *Locker) acquireAll(g *group) {
	if !g.taken.CompareAndSwap(false, true) {
		return
	}
	ctx, cancel := context.WithDeadline(l.ctx, patience(g.ctx))
	defer cancel()
	n := len(g.cs)
	keys, owners := make([][]byte, n), make([]string, n)
	for i, c := range g.cs {
		keys[i], owners[i] = []byte(c.Key), c.Owner
	}
	var t taken
	err := l.retry(ctx, func() error {
		t = taken{}
		first := g.cs[0]
		return l.on(ctx, func(conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, l.sql.all, keys, owners, g.holders, first.TTL.Microseconds(), first.Fencing,
				g.channel, g.prefix).Scan(&t.held, &t.holder, &t.remain, &t.tokens)
		})
	})
	t.err = translate(err)
	g.done <- t
}

// ReleaseAll takes one request, or a few if other calls come at the same time.
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
	calls := make([]*call, len(cs))
	for i, c := range cs {
		calls[i] = l.releasing(ctx, endOf(c), nexts[i])
	}
	posted := make([]error, len(cs))
	for i, k := range calls {
		posted[i] = l.post(k)
	}
	for i, k := range calls {
		r, err := result{}, posted[i]
		if err == nil {
			r, err = l.answer(k)
		}
		released, err := l.released(k, r, nexts[i], err)
		answered(i, released, unclear(err))
	}
}
