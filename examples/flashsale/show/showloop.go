package show

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// watchRun publishes how a run gets on, until ctx ends, and then how things are
// at the end.
func (s *show) watchRun(ctx context.Context) {
	tick := time.NewTicker(updateEvery)
	defer tick.Stop()
	w := watching{show: s, known: map[string]stats{}, lastPoint: time.Now()}
	w.publish(ctx, true, false)
	for i := 1; ; i++ {
		select {
		case <-tick.C:
			w.publish(ctx, i%pointEvery == 0, i%(pointEvery*pollEvery) == 0)
		case <-ctx.Done():
			w.publish(context.WithoutCancel(ctx), true, true)
			return
		}
	}
}

// watching is what watchRun has in hand.
type watching struct {
	*show
	known     map[string]stats // by instance, as of the last time that it answered
	before    numbers
	lastPoint time.Time
	answered  int // at the last point
}

// publish tells pages what is new, with a point of the plots and the newest of
// the guards' measurements if asked to.
func (w *watching) publish(ctx context.Context, point, poll bool) {
	n := w.numbers(ctx, w.known)
	if poll {
		w.poll(ctx, w.known)
	}
	u := w.take()
	if point {
		u.Point = w.point(n, n.Answered-w.answered, time.Since(w.lastPoint))
		w.lastPoint, w.answered = time.Now(), n.Answered
	}
	if poll {
		u.Waits, u.Holds = buckets(w.known)
	}
	if !sameNumbers(n, w.before) {
		u.Numbers = &n
	}
	w.before = n
	if u.news() {
		w.hub.publish(u)
	}
}

// numbers counts, at one moment as far as the book is concerned.
func (s *show) numbers(ctx context.Context, known map[string]stats) numbers {
	t := s.sale.tally
	n := numbers{Left: s.sale.cfg.stock}
	if left, orders, err := s.sale.store.book.Glance(ctx); err == nil {
		n.Left, n.Orders = left, orders
	}
	n.Oversold, n.LostUpdates = harm(s.sale.cfg.stock, n.Left, n.Orders)
	n.Answered, n.Sold = t.progress()
	n.Reasons, n.Errors = t.reasons()
	n.LateWrites = n.Reasons[shop.CodeLateWrite]
	for _, k := range n.Reasons {
		n.Refused += k
	}
	for _, one := range known {
		n.LeasesLost += int(one.LeasesLost)
	}
	return n
}

// harm compares the order book with the stock.
func harm(stock, left, orders int) (oversold, lostUpdates int) {
	return max(0, orders-stock), orders - (stock - left)
}

func sameNumbers(a, b numbers) bool {
	same := len(a.Reasons) == len(b.Reasons)
	for code, n := range a.Reasons {
		same = same && b.Reasons[code] == n
	}
	a.Reasons, b.Reasons = nil, nil
	return same && a.Left == b.Left && a.Orders == b.Orders && a.Sold == b.Sold && a.LateWrites == b.LateWrites &&
		a.LeasesLost == b.LeasesLost && a.Answered == b.Answered && a.Errors == b.Errors
}

// final returns the numbers of the report.
func (r result) final(left int) *numbers {
	return &numbers{
		Left: left, Orders: r.Orders, Sold: r.Sold, Oversold: r.Oversold, LostUpdates: r.LostUpdates,
		LateWrites: r.LateWrites,
		LeasesLost: r.LeasesLost, Answered: r.Sold + r.Refused + r.Errors, Refused: r.Refused,
		Reasons: r.RefusedByReason,
		Errors:  r.Errors,
	}
}

// poll asks the instances for what their guards have measured. One that is
// paused does not answer in time.
func (s *show) poll(ctx context.Context, known map[string]stats) {
	ctx, cancel := context.WithTimeout(ctx, 2*updateEvery)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards known
	for _, in := range s.sale.instances() {
		wg.Go(func() {
			var one stats
			if in.get(ctx, s.sale.buyers.http, "/stats", &one) == nil {
				mu.Lock()
				defer mu.Unlock()
				known[in.name] = one
			}
		})
	}
	wg.Wait()
}

// point makes the next point of the plots.
func (s *show) point(n numbers, answered int, took time.Duration) *point {
	s.mu.Lock()
	waits, holds := s.waits, s.holds
	s.waits, s.holds = nil, nil
	s.mu.Unlock()
	return &point{
		MS: time.Since(s.began).Milliseconds(), Orders: n.Orders, Left: n.Left,
		RPS:     round(float64(answered)/took.Seconds(), 1),
		WaitP50: quantileOf(waits, 0.50), WaitP99: quantileOf(waits, 0.99),
		HoldP50: quantileOf(holds, 0.50), HoldP99: quantileOf(holds, 0.99),
	}
}

// quantileOf returns the q-quantile of a few values, nil of none.
func quantileOf(values []float64, q float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	v := round(values[max(0, int(math.Ceil(q*float64(len(values))))-1)], 2)
	return &v
}

// buckets merges what the guards have measured, coarsely enough to be drawn.
func buckets(known map[string]stats) (waits, holds [][2]int) {
	var all stats
	for _, one := range known {
		all.add(one)
	}
	return all.Waits.coarse(), all.Holds.coarse()
}

// coarse returns the buckets of h at two to the octave.
func (h histogram) coarse() (counts [][2]int) {
	half := histogram{Scale: 1, Buckets: map[int32]uint64{}}
	half.add(h)
	for i, n := range half.Buckets {
		if half.Scale == 1 {
			counts = append(counts, [2]int{int(i), int(n)})
		}
	}
	slices.SortFunc(counts, func(a, b [2]int) int { return a[0] - b[0] })
	return counts
}
