package sqllease

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// renewPage is how many leases are renewed in one statement.
const renewPage = 500

// Renew gives each claim its full TTL again. For each 500 claims of one TTL
// that own their keys alone it takes two requests.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.gate.Leave()
	byTTL := map[time.Duration][]int{}
	var shares []int
	for i, c := range cs {
		if c.Limit > 1 {
			shares = append(shares, i)
			continue
		}
		byTTL[c.TTL] = append(byTTL[c.TTL], i)
	}
	for ttl, which := range byTTL {
		for len(which) > 0 {
			n := min(len(which), renewPage)
			l.renewSome(ctx, cs, which[:n], ttl, answered)
			which = which[n:]
		}
	}
	l.renewShares(ctx, cs, shares, answered)
}

// renewShares renews the claims which, each one of several owners of its key.
func (l *Locker) renewShares(ctx context.Context, cs []*locker.Claim, which []int, answered func(i int, err error)) {
	replies := make([]reply, len(which))
	var all sync.WaitGroup
	for n, i := range which { // they travel together
		all.Go(func() {
			c := cs[i]
			replies[n] = l.lanes.do(ctx, request{verb: renew, key: c.Key, owner: c.Owner, ttl: c.TTL.Microseconds()})
		})
	}
	all.Wait()
	for n, i := range which {
		switch r := replies[n]; {
		case r.err != nil:
			answered(i, l.unclear(r))
		case !r.ok:
			answered(i, l.lost())
		default:
			answered(i, nil)
		}
	}
}

// renewSome renews the claims which, all of one TTL.
func (l *Locker) renewSome(
	ctx context.Context, cs []*locker.Claim, which []int, ttl time.Duration, answered func(i int, err error),
) {
	var keys, owners []string
	for _, i := range which {
		keys, owners = append(keys, cs[i].Key), append(owners, cs[i].Owner)
	}
	renewed, err := l.table.renew(ctx, keys, owners, ttl)
	for n := 0; err != nil && l.table.verdict(err) == Again && pause(ctx, n); n++ {
		renewed, err = l.table.renew(ctx, keys, owners, ttl)
	}
	for _, i := range which {
		switch {
		case err != nil:
			answered(i, l.sorted(err))
		case renewed[cs[i].Owner]:
			answered(i, nil)
		default:
			answered(i, l.lost())
		}
	}
}
