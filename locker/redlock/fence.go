package redlock

import (
	"context"

	"github.com/go-lockguard/guard/locker"
)

// Fence reserves a block of tokens on a quorum. It then raises the last token
// that a quorum has given to the end of the block. That takes two requests to
// all nodes.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	if err := l.life.Enter(); err != nil {
		return 0, err
	}
	defer l.life.Leave()
	b := l.ballot(c, false)
	token, err := l.reserve(ctx, b, 0)
	if err != nil {
		return 0, err
	}
	_, err = l.reserve(ctx, b, token)
	return token, err
}

// reserve reserves a block from floor on with every node where the key is b's.
// It returns the highest first token when a quorum has reserved.
//
// The highest token of one round is known to one node only. A claim that next
// asks another quorum may get a lower one. A second round, from that token on,
// makes a quorum store it. Every quorum has one of those nodes.
func (l *Locker) reserve(ctx context.Context, b *ballot, floor uint64) (highest uint64, err error) {
	answers := make(chan answer[uint64], len(l.nodes))
	for i, n := range l.nodes {
		if _, err := n.begin(); err != nil {
			answers <- answer[uint64]{seat: i, err: err}
			continue
		}
		l.life.Go(func() { // ends with the node's limit
			limited, cancel := l.within(ctx, b.claim.TTL)
			defer cancel()
			token, err := n.fence(limited, &b.seats[i].claim, floor)
			n.end(err)
			answers <- answer[uint64]{i, token, err}
		})
	}
	err = agree(ctx, l, answers, func(token uint64) { highest = max(highest, token) })
	if err != nil {
		return 0, err
	}
	return highest, nil
}
