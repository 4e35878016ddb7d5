package sqllease

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// renewPage is how many leases are renewed in one statement.
const renewPage = 500

// Renew gives each claim its full TTL again, in two requests for each 500
// claims of one TTL.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.gate.Leave()
	byTTL := map[time.Duration][]int{}
	for i, c := range cs {
		byTTL[c.TTL] = append(byTTL[c.TTL], i)
	}
	for ttl, which := range byTTL {
		for len(which) > 0 {
			n := min(len(which), renewPage)
			l.renewSome(ctx, cs, which[:n], ttl, answered)
			which = which[n:]
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
	for n := 0; err != nil && l.table.Judge(err) == Again && pause(ctx, n); n++ {
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
