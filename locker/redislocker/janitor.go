package redislocker

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// chore is a key to be freed.
type chore struct {
	call  call
	again bool      // once more when cleanAgain has passed
	came  time.Time // when it was added
	tries int
	due   time.Time
}

const (
	cleanLimit = time.Second          // for one request that cleans up
	cleanAgain = time.Second          // until the second cleaning; a try that was on its way has arrived by then
	cleanSoon  = 5 * time.Millisecond // until the second try if the first had no answer
	cleanPause = time.Second          // until each later try: a server that goes on after a hang frees its keys soon
	cleanFor   = 31 * time.Second     // then a chore without an answer is given up, and its key ends by its TTL
	cleanBatch = 256                  // keys in one request
	cleanMost  = 4096                 // max chores of each kind per node; more are dropped and end by their TTL
	tellEvery  = time.Minute          // between two logs of how many were dropped at a node
)

// cleaner returns a function that sends chores as one request. The function
// reports for each whether it was answered.
func cleaner(s *server) func(context.Context, []chore) []bool {
	return func(ctx context.Context, due []chore) []bool {
		calls := make([]call, len(due))
		for i, c := range due {
			calls[i] = c.call
		}
		answered := make([]bool, len(due))
		for i, answer := range s.run(ctx, calls...) {
			err := answer.Err()
			answered[i] = err == nil || s.refused(err)
		}
		return answered
	}
}

// janitor does chores in the background. Each node has chores of its own, so
// that a node that hangs delays no other.
type janitor struct {
	clean func(context.Context, []chore) []bool

	ctx    context.Context // of all cleaning; outlives the calls that left the chores
	cancel context.CancelFunc
	busy   sync.WaitGroup // backlogs at work

	mu      sync.Mutex // guards the fields below and the backlogs; never held across I/O
	nodes   map[string]*backlog
	closing chan struct{} // closed by finish
	closed  bool
}

func newJanitor(clean func(context.Context, []chore) []bool) *janitor {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // no caller waits; Close ends it
	return &janitor{
		clean: clean, ctx: ctx, cancel: cancel, nodes: make(map[string]*backlog), closing: make(chan struct{}),
	}
}

// add starts the node's goroutine if there is none, and does nothing once the
// janitor closes.
func (j *janitor) add(node string, c chore) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	b := j.nodes[node]
	if b == nil {
		b = &backlog{wake: make(chan struct{}, 1)}
		j.nodes[node] = b
		j.busy.Go(func() { j.work(node, b) }) // ends when the backlog is empty
	}
	c.came = time.Now()
	c.due = c.came
	b.add(c)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// work does the chores of one node until none is left.
func (j *janitor) work(node string, b *backlog) {
	for {
		due, pause, dropped, ok := j.next(node, b)
		if dropped > 0 {
			slog.Warn("redislocker: too many keys to free, more end by their TTL", "dropped", dropped)
		}
		switch {
		case !ok:
			return
		case len(due) > 0:
			ctx, cancel := context.WithTimeout(j.ctx, limits.Apart(cleanLimit))
			answered := j.clean(ctx, due)
			cancel()
			j.settle(b, due, answered)
		default:
			timer := time.NewTimer(limits.Apart(pause))
			select {
			case <-timer.C:
			case <-b.wake:
			case <-j.closing:
			}
			timer.Stop()
		}
	}
}

// next takes a batch of due chores. When the janitor closes, all chores are
// due. If none is due, pause is the time until the next one. If none is left,
// next ends the backlog and ok is false. dropped is the number of chores to
// warn of.
func (j *janitor) next(node string, b *backlog) (due []chore, pause time.Duration, dropped int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	dropped = b.tell(now)
	if b.empty() {
		delete(j.nodes, node)
		return nil, 0, dropped, false
	}
	due = b.take(now, j.closed)
	return due, b.pause(now), dropped, true
}

// settle decides which chores come again. These are chores that need a second
// time and chores without an answer.
func (j *janitor) settle(b *backlog, done []chore, answered []bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	for i, c := range done {
		c.tries++
		early := c.again && now.Before(c.came.Add(cleanAgain))
		if answered[i] && !early || now.Sub(c.came) >= cleanFor || j.closed && c.tries > 1 {
			continue
		}
		switch {
		case answered[i]:
			c.due = c.came.Add(cleanAgain)
		case c.tries == 1: // its connection may have died just then
			c.due = now.Add(cleanSoon)
		default:
			c.due = now.Add(cleanPause)
		}
		b.add(c)
	}
}

// finish does all remaining chores at once and takes no more, and waits until
// the janitor has ended.
func (j *janitor) finish() {
	j.mu.Lock()
	j.closed = true
	close(j.closing)
	j.mu.Unlock()
	j.busy.Wait()
	j.cancel()
}

// giveUp makes every request that finish has yet to send fail at once.
func (j *janitor) giveUp() { j.cancel() }

// A backlog holds the chores of one node. fresh has those that were never
// tried, in the order of their arrival. again has those to be tried again, by
// the time when they are due. The fresh chores go first, because they may wake
// somebody. Each part is bounded.
type backlog struct {
	wake  chan struct{} // holds one: there are new chores
	fresh []chore
	again repeats

	dropped int       // since they were last told
	toldAt  time.Time // when they were; zero: never
}

// add keeps c, unless there are too many already, and counts those that are
// dropped.
func (b *backlog) add(c chore) {
	switch {
	case c.tries == 0 && len(b.fresh) < cleanMost:
		b.fresh = append(b.fresh, c)
	case c.tries > 0 && len(b.again) < cleanMost:
		heap.Push(&b.again, c)
	default:
		b.dropped++
	}
}

// tell returns how many chores were dropped and not told yet. While more are
// dropped, it does so once in tellEvery. At the end of the backlog it tells
// all.
func (b *backlog) tell(now time.Time) (dropped int) {
	if !b.toldAt.IsZero() && now.Sub(b.toldAt) < tellEvery && !b.empty() {
		return 0
	}
	if dropped, b.dropped = b.dropped, 0; dropped > 0 {
		b.toldAt = now
	}
	return dropped
}

func (b *backlog) empty() bool { return len(b.fresh) == 0 && len(b.again) == 0 }

// take takes a batch of chores that are due. With all, it also takes chores
// that are not due.
func (b *backlog) take(now time.Time, all bool) []chore {
	n := min(len(b.fresh), cleanBatch)
	due := make([]chore, n, min(n+len(b.again), cleanBatch))
	copy(due, b.fresh)
	b.fresh = b.fresh[n:]
	if len(b.fresh) == 0 {
		b.fresh = nil
	}
	for len(due) < cleanBatch && len(b.again) > 0 && (all || !b.again[0].due.After(now)) {
		due = append(due, heap.Pop(&b.again).(chore))
	}
	return due
}

// pause is the time until a chore is due.
func (b *backlog) pause(now time.Time) time.Duration {
	if len(b.fresh) > 0 || len(b.again) == 0 {
		return 0
	}
	return b.again[0].due.Sub(now)
}

// repeats is a heap of chores by due.
type repeats []chore

func (r repeats) Len() int { return len(r) }

func (r repeats) Less(i, k int) bool { return r[i].due.Before(r[k].due) }

func (r repeats) Swap(i, k int) { r[i], r[k] = r[k], r[i] }

// Push implements [heap.Interface].
func (r *repeats) Push(c any) { *r = append(*r, c.(chore)) }

// Pop implements [heap.Interface].
func (r *repeats) Pop() any {
	last := len(*r) - 1
	c := (*r)[last]
	(*r)[last] = chore{}
	*r = (*r)[:last]
	return c
}
