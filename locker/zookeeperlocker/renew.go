package zookeeperlocker

import (
	"context"
	"slices"
	"sync"

	"github.com/go-lockguard/guard/locker"
)

const (
	renewBatch   = 25 // claims in one request
	renewFlights = 8  // requests of one Renew at a time
)

// Renew gives each claim its full TTL again, 25 in a request.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.begin(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.gate.Leave()
	var alive []int
	for i, c := range cs {
		if l.over(l.stateOf(c)) {
			answered(i, errNotOwner)
			continue
		}
		alive = append(alive, i)
	}
	turns := make(chan struct{}, renewFlights)
	var all sync.WaitGroup
	for batch := range slices.Chunk(alive, renewBatch) {
		turns <- struct{}{} // a request ends with ctx
		all.Go(func() {
			defer func() { <-turns }()
			l.renew(ctx, cs, batch, answered)
		})
	}
	all.Wait()
}

// renew renews some of the claims. A transaction is done as a whole or not at
// all, so it is sent again without each claim that has lost its key.
func (l *Locker) renew(ctx context.Context, cs []*locker.Claim, batch []int, answered func(i int, err error)) {
	const opsEach = 2
	for len(batch) > 0 {
		ops := make([]any, 0, opsEach*len(batch))
		for _, i := range batch {
			c, dir := cs[i], l.dir(cs[i].Key)
			value := ownerValue(c.Owner, recordOf(c))
			ops = append(ops, exists(dir+markPrefix+c.Owner), write(dir+ownerNode, value, anyVersion))
		}
		r, err := l.multi(ctx, ops...)
		if err == nil && r.refused != nil {
			lost := r.at / opsEach
			answered(batch[lost], errNotOwner)
			batch = slices.Delete(batch, lost, lost+1)
			continue
		}
		for _, i := range batch {
			if err != nil {
				answered(i, unclear(err))
				continue
			}
			l.renewed(cs[i])
			answered(i, nil)
		}
		return
	}
}

func (l *Locker) renewed(c *locker.Claim) {
	st := l.stateOf(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.has(st, c.TTL)
}

// Fence reserves a block of tokens in one request.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	defer l.gate.Leave()
	if l.over(l.stateOf(c)) {
		return 0, errNotOwner
	}
	r, err := l.multi(ctx, exists(l.dir(c.Key)+markPrefix+c.Owner), write(l.fenceNode(), nil, anyVersion))
	switch {
	case err != nil:
		return 0, unclear(err)
	case r.refused != nil:
		return 0, errNotOwner
	}
	return token(r.stats[1].Mzxid), nil
}
