package turns

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// releasers is how many releases of one call are under way at a time.
const releasers = 64

// ReleaseKeys is [Turn.ReleaseKey] for several turns with the same TTL, in one
// round trip if the locker can. It blocks until all are answered, or for the
// limit of one release. It returns the error of each.
func (e *Engine) ReleaseKeys(ctx context.Context, ts []*Turn) []error {
	errs := make([]error, len(ts))
	if len(ts) == 0 {
		return errs
	}
	ctx = e.bounded(ctx, limits.Release(ts[0].set.TTL))
	if several, ok := e.locker.(locker.Several); ok && len(ts) > 1 && !ts[0].grant.crowded() {
		releaseTogether(ctx, several, ts, errs)
		return errs
	}
	todo := make(chan int, len(ts))
	for i := range ts {
		todo <- i
	}
	close(todo)
	var wg sync.WaitGroup
	for range min(len(ts), releasers) {
		wg.Go(func() { // ends when nothing is left to do
			for i := range todo {
				errs[i] = ts[i].releaseKey(ctx)
			}
		})
	}
	wg.Wait()
	return errs
}

// releaseTogether releases the keys of ts with one request.
func releaseTogether(ctx context.Context, several locker.Several, ts []*Turn, errs []error) {
	var at []int // the turns that release, by their places in ts
	var cs, nexts []*locker.Claim
	var bids []*bid
	answered := false
	defer func() {
		for n, i := range at {
			if !answered { // after a panic or Goexit of an observer or the locker
				_ = ts[i].released(locker.Released{}, locker.ErrUnavailable, bids[n], time.Now())
			}
		}
		for _, t := range ts {
			t.passFloor()
		}
	}()
	for i, t := range ts {
		may, err := t.mayRelease(ctx)
		if errs[i] = err; !may {
			continue
		}
		at, bids = append(at, i), append(bids, nil)
		next, claim := t.nextBid(t.grant)
		cs, nexts, bids[len(bids)-1] = append(cs, &t.grant.bid.claim), append(nexts, claim), next
	}
	if len(cs) == 0 {
		return
	}
	sent, answers := time.Now(), make([]answer, len(cs))
	several.ReleaseAll(ctx, cs, nexts, func(n int, r locker.Released, err error) { answers[n] = answer{r, err} })
	answered = true
	for n, a := range answers {
		errs[at[n]] = ts[at[n]].released(a.Released, a.err, bids[n], sent)
	}
}

// answer is the answer to one release.
type answer struct {
	locker.Released
	err error
}
