package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/bench/internal/host"
)

// nemesis does harm: in calm times one fault after the other, each with all the time that it may take to be over, so that
// what follows is its doing; then for some time many at once.
type nemesis struct {
	cfg    config
	crew   *crew
	book   *book
	server *host.Server
	rdb    *redis.Client
	ice    sync.Mutex // held while the server is frozen
}

const (
	calmFaults  = 12
	stormFaults = 30
)

// run ends when ctx does and all that it has begun is over.
func (n *nemesis) run(ctx context.Context) {
	if len(n.cfg.faults) == 0 {
		return
	}
	rnd := rand.New(rand.NewPCG(n.cfg.seed, 0))
	var storm sync.WaitGroup
	defer storm.Wait()
	rest(ctx, n.cfg.reach())
	for ctx.Err() == nil {
		for range calmFaults {
			s := draw(rnd, n.cfg)
			if ctx.Err() == nil {
				n.strike(ctx, s)
				rest(ctx, n.cfg.reach()+100*time.Millisecond)
			}
		}
		for range stormFaults {
			s := draw(rnd, n.cfg)
			pause := upTo(rnd, 800*time.Millisecond)
			if ctx.Err() == nil {
				storm.Go(func() { n.strike(ctx, s) })
				rest(ctx, pause)
			}
		}
		storm.Wait()
		rest(ctx, n.cfg.reach())
	}
}

// rest sleeps, unless ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// strike carries out a fault and enters it into the book.
func (n *nemesis) strike(ctx context.Context, s strike) {
	f := &fault{kind: s.kind, text: s.String(), from: now()}
	n.book.mu.Lock()
	n.book.faults = append(n.book.faults, f)
	n.book.mu.Unlock()
	kinds[s.kind].do(context.WithoutCancel(ctx), n, s, f)
	n.book.mu.Lock()
	defer n.book.mu.Unlock()
	f.to = now()
}
