package zookeeperlocker

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

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
	defer l.life.Leave()
	var alive []int
	for i, c := range cs {
		if l.book.Page(c).Over() {
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
//
// The owner node is written over the version that this process knows. A hand
// may have deleted it, and another claim may own the key now.
func (l *Locker) renew(ctx context.Context, cs []*locker.Claim, batch []int, answered func(i int, err error)) {
	const opsEach = 2
	for len(batch) > 0 {
		ops := make([]any, 0, opsEach*len(batch))
		for _, i := range batch {
			c, dir := cs[i], l.dir(cs[i].Key)
			value := ownerValue(c.Owner, recordOf(c))
			ops = append(ops, exists(dir+markPrefix+c.Owner), write(dir+ownerNode, value, l.lines.nodeOf(c)))
		}
		r, err := l.multi(ctx, ops...)
		if err == nil && r.refused != nil {
			at := r.at / opsEach
			if err := l.relearn(ctx, cs[batch[at]], r); err != nil {
				answered(batch[at], err)
				batch = slices.Delete(batch, at, at+1)
			}
			continue
		}
		for at, i := range batch {
			if err != nil {
				answered(i, unclear(err))
				continue
			}
			l.lines.noteNode(cs[i], r.stats[opsEach*at+1].Version)
			l.book.Page(cs[i]).Own(cs[i].TTL)
			answered(i, nil)
		}
		return
	}
}

// relearn is called when the mark or the version of the owner node of c was
// refused. It returns nil if the node still names c, and the transaction is to
// be repeated. An earlier request that had no answer may have changed the
// version.
func (l *Locker) relearn(ctx context.Context, c *locker.Claim, r result) error {
	if !errors.Is(r.refused, zk.ErrBadVersion) {
		return errNotOwner
	}
	n, err := l.get(ctx, l.dir(c.Key)+ownerNode)
	if err != nil {
		return unclear(err)
	}
	if owner, _, _ := parse(n.value); owner != c.Owner || !l.lines.noteNode(c, n.stat.Version) {
		return errNotOwner
	}
	return nil
}

// Fence reserves a block of tokens, in one request unless the version of the
// owner node is not known.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	defer l.life.Leave()
	if l.book.Page(c).Over() {
		return 0, errNotOwner
	}
	dir := l.dir(c.Key)
	for range maxTries {
		r, err := l.multi(ctx, exists(dir+markPrefix+c.Owner), unchanged(dir+ownerNode, l.lines.nodeOf(c)),
			write(l.fenceNode(), nil, anyVersion))
		if err != nil {
			return 0, unclear(err)
		}
		if r.refused == nil {
			return token(r.stats[2].Mzxid), nil
		}
		if err := l.relearn(ctx, c, r); err != nil {
			return 0, err
		}
	}
	return 0, unclear(errChanging)
}
