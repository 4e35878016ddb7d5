package ctl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

const (
	stormGuards = 3
	askEvery    = 50 * time.Millisecond
	tryEvery    = 5 * time.Millisecond
	holdMost    = 5 * time.Second
)

// role is what some callers of a storm do again and again.
type role struct {
	key   string
	keys  int // how many of that name, one at random at a time
	limit int
	hold  time.Duration // at most
	rest  time.Duration // after each turn
	try   bool          // not to wait, for a key that another guard has
}

// roles returns what each guard does at the same time. The key slow is held
// long enough to be renewed. Most of the keys held are free at any moment. So a
// server that fails over and forgets the last moments has forgotten that some
// were taken, and the callers that try find them free.
func roles(ttl time.Duration) []role {
	try := role{limit: 1, hold: 2 * time.Millisecond, rest: tryEvery, try: true}
	all := []role{
		{key: "hot", keys: 1, limit: 1, hold: 2 * time.Millisecond},
		{key: "hot", keys: 1, limit: 1, hold: 2 * time.Millisecond},
		{key: "spread", keys: 16, limit: 1, hold: 2 * time.Millisecond},
		{key: "permits", keys: 1, limit: 2, hold: 5 * time.Millisecond},
		{key: "slow", keys: 1, limit: 1, hold: min(ttl/2, holdMost)},
		try, try,
	}
	held := role{key: "held", keys: 256, limit: 1, hold: min(ttl/2, time.Second)}
	return append(all, slices.Repeat([]role{held}, 8)...)
}

// guard returns a guard with a client of its own, as another process has.
func (p *prover) guard() (g *guard.Guard, closeGuard func(), err error) {
	rdb, err := connect(p.cmd)
	if err != nil {
		return nil, nil, err
	}
	l := redislocker.New(rdb, redislocker.WithPrefix(p.prefix), redislocker.WithClientName("guardctl"))
	g, err = guard.New(l, guard.WithName("guardctl"), guard.WithTTL(p.proof.TTL), guard.WithFencing(),
		guard.WithMaxWait(proveMost), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, nil, errors.Join(err, rdb.Close())
	}
	return g, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		_ = g.Close(ctx)
		_ = rdb.Close()
	}, nil
}

// storm lets guards compete until the time is over, and puts into the proof
// what the court has seen.
func (p *prover) storm(ctx context.Context) error {
	c := &court{}
	var guards []*guard.Guard
	for range stormGuards {
		g, closeGuard, err := p.guard()
		if err != nil {
			return err
		}
		defer closeGuard()
		guards = append(guards, g)
	}
	first, err := p.runIDs(ctx)
	if p.proof.Failover != nil && (err != nil || first == "") {
		return errors.Join(errors.New("INFO does not tell a run_id, so prove cannot see a failover"), err)
	}
	start, most := time.Now(), p.proof.Time
	if p.proof.Failover != nil {
		most = proveMost
		fmt.Fprintln(p.progress, "guardctl: the storm is on: trigger the failover now")
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var work sync.WaitGroup // of all goroutines below, which end with ctx
	for i, g := range guards {
		for _, r := range roles(p.proof.TTL) {
			work.Go(func() { r.play(ctx, c, i, g.With(guard.WithPermits(r.limit))) })
		}
	}
	work.Go(func() { p.ask(ctx, c, first, cancel) })
	work.Wait()
	c.close()
	p.proof.judged(c, time.Since(start))
	return nil
}

// ask asks the server again and again, and tells c how long it was silent and
// whether its primary changed. It ends the storm some time after a failover
// that was to come.
func (p *prover) ask(ctx context.Context, c *court, first string, end func()) {
	last, changed := time.Now(), time.Time{}
	for pause(ctx, askEvery); ctx.Err() == nil; pause(ctx, askEvery) {
		ids, err := p.runIDs(ctx)
		if err != nil || p.write(ctx) != nil { // a primary that was replaced answers, and refuses to write
			continue
		}
		if ids != first && changed.IsZero() {
			changed = time.Now()
			fmt.Fprintln(p.progress, "guardctl: the primary has changed")
		}
		c.answered(time.Since(last)-askEvery, !changed.IsZero())
		last = time.Now()
		if p.proof.Failover != nil && !changed.IsZero() && time.Since(changed) > p.proof.Time {
			end()
		}
	}
}

// write reports whether the server takes a write.
func (p *prover) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return p.rdb.Set(ctx, p.prefix+":write", "", time.Minute).Err()
}

// play takes turns until ctx ends.
func (r role) play(ctx context.Context, c *court, number int, g *guard.Guard) {
	for ; ctx.Err() == nil; pause(ctx, r.rest) {
		t := &turn{guard: number, limit: r.limit, try: r.try}
		if r.try {
			t.key = c.taken(number)
		} else {
			t.key = r.key + strconv.Itoa(rand.N(r.keys))
		}
		if t.key == "" {
			continue
		}
		c.asks(t)
		err := r.do(ctx, g, t.key, func(ctx context.Context) error {
			token, err := guard.FencingToken(ctx)
			if err != nil {
				return err
			}
			t.lease, _ = guard.LeaseFrom(ctx)
			c.enters(t, token)
			defer c.leaves(t)
			pause(ctx, r.hold/2+rand.N(r.hold/2))
			return nil
		})
		c.ends(t, err, ctx.Err() != nil)
		if err != nil {
			pause(ctx, askEvery)
		}
	}
}

// do runs fn under key, or does not if another has the key and r tries.
func (r role) do(ctx context.Context, g *guard.Guard, key string, fn func(context.Context) error) error {
	if r.try {
		_, err := g.TryDo(ctx, key, fn)
		return err
	}
	return g.Do(ctx, key, fn)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
