package lockerkit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// A Cleanup removes from the store all that is left of a claim.
type Cleanup struct {
	Node  string // of the store, which may hang alone
	Claim *locker.Claim
	End   locker.End // with Queued
	Late  bool       // once more when cleanupAgain has passed: a request of the claim may be under way

	came  time.Time // when it was added
	tries int
	due   time.Time // the next try; zero: at once
}

const (
	cleanupLimit = time.Second          // for one request that does cleanups
	cleanupAgain = time.Second          // until the second time; a request that was on its way has arrived by then
	cleanupSoon  = 5 * time.Millisecond // until the second try if the first had no answer
	cleanupPause = time.Second          // until each later try: a server that goes on after a hang frees its keys soon
	cleanupFor   = 31 * time.Second     // then a cleanup without an answer is given up, and its key ends by its TTL
	cleanupBatch = locker.MaxSeveral    // cleanups in one request
	cleanupMost  = 8192                 // max cleanups of a node; more are dropped and end by their TTL
	tellEvery    = time.Minute          // between two logs of how many were dropped at a node
)

// Janitor does cleanups in the background. Each node has its own, so that a
// node that hangs delays no other. A Janitor is safe for concurrent use.
type Janitor struct {
	clean func(ctx context.Context, due []*Cleanup) (done []bool)

	ctx    context.Context // of all requests; outlives the calls that left the cleanups
	cancel context.CancelFunc
	busy   sync.WaitGroup // backlogs at work

	mu     sync.Mutex // guards the fields below and the backlogs; never held across I/O
	nodes  map[string]*backlog
	closed bool // by Close
}

// NewJanitor returns a Janitor that releases claims in l.
func NewJanitor(l locker.Locker) *Janitor {
	return newJanitor(func(ctx context.Context, due []*Cleanup) []bool { return release(ctx, l, due) })
}

func newJanitor(clean func(context.Context, []*Cleanup) []bool) *Janitor {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // no caller waits; Close ends it
	return &Janitor{clean: clean, ctx: ctx, cancel: cancel, nodes: make(map[string]*backlog)}
}

// release releases the claims of due in l, together as far as l can, and
// reports for each whether nothing is left to do.
func release(ctx context.Context, l locker.Locker, due []*Cleanup) (done []bool) {
	done = make([]bool, len(due))
	note := func(i int, err error) { done[i] = !errors.Is(err, locker.ErrUnavailable) }
	var at []int // of those that are released together
	var claims []*locker.Claim
	var ends []locker.End
	var others sync.WaitGroup
	for i, c := range due {
		if len(due) > 1 && c.End.Record.Value == "" && l.Capabilities().Several {
			at, claims, ends = append(at, i), append(claims, c.Claim), append(ends, c.End)
			continue
		}
		others.Go(func() { // ends with ctx
			_, err := l.Release(ctx, c.Claim, c.End)
			note(i, err)
		})
	}
	if len(at) > 0 {
		l.ReleaseAll(ctx, claims, ends, func(n int, _ locker.Released, err error) { note(at[n], err) })
	}
	others.Wait()
	return done
}

// Add adds c, and does not block. Once j closes it does nothing. The claim must
// not change any more.
func (j *Janitor) Add(c Cleanup) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	b := j.nodes[c.Node]
	if b == nil {
		b = &backlog{wake: make(Bell, 1)}
		j.nodes[c.Node] = b
		j.busy.Go(func() { j.work(c.Node, b) }) // ends when the backlog is empty
	}
	c.End.Queued = true
	c.came = time.Now()
	b.add(&c)
	b.wake.Ring()
}

// work does the cleanups of one node until none is left.
func (j *Janitor) work(node string, b *backlog) {
	for {
		due, pause, dropped, ok := j.next(node, b)
		if dropped > 0 {
			slog.Warn("guard: too many keys to free, more end by their TTL", "dropped", dropped)
		}
		switch {
		case !ok:
			return
		case len(due) > 0:
			ctx, cancel := context.WithTimeout(j.ctx, limits.Apart(cleanupLimit))
			answered := j.clean(ctx, due)
			cancel()
			j.settle(b, due, answered)
		default:
			Pause(pause, b.wake)
		}
	}
}

// next takes a batch of due cleanups. When the janitor closes, all cleanups are
// due. If none is due, pause is the time until the next one. If none is left,
// next ends the backlog and ok is false. dropped is the number of cleanups to
// warn of.
func (j *Janitor) next(node string, b *backlog) (due []*Cleanup, pause time.Duration, dropped int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	dropped = b.tell(now)
	if len(b.all) == 0 {
		delete(j.nodes, node)
		return nil, 0, dropped, false
	}
	due = b.take(now, j.closed)
	if len(due) == 0 {
		pause = b.all[0].due.Sub(now)
	}
	return due, pause, dropped, true
}

// settle decides which cleanups come again: those that need a second time, and
// cleanups without an answer.
func (j *Janitor) settle(b *backlog, done []*Cleanup, answered []bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	for i, c := range done {
		c.tries++
		early := c.Late && now.Before(c.came.Add(cleanupAgain))
		if answered[i] && !early || now.Sub(c.came) >= cleanupFor || j.closed && c.tries > 1 {
			continue
		}
		switch {
		case answered[i]:
			c.due = c.came.Add(cleanupAgain)
		case c.tries == 1: // its connection may have died just then
			c.due = now.Add(cleanupSoon)
		default:
			c.due = now.Add(cleanupPause)
		}
		b.add(c)
	}
}

// Close does all remaining cleanups at once and takes no more. It blocks until
// that is done. If ctx ends first, Close returns its error, and what is left
// fails at once. A second Close does the same.
func (j *Janitor) Close(ctx context.Context) (err error) {
	j.mu.Lock()
	j.closed = true
	for _, b := range j.nodes {
		b.wake.Ring()
	}
	left := len(j.nodes) > 0
	j.mu.Unlock()
	stop := context.AfterFunc(ctx, j.cancel)
	defer stop()
	if j.busy.Wait(); left {
		err = ctx.Err()
	}
	j.cancel()
	return err
}

// A backlog holds the cleanups of one node by the time when they are due. Those
// that were never tried are due at once, so they go first, because they may wake
// somebody.
type backlog struct {
	wake Bell // there are new cleanups, or the janitor closes
	all  []*Cleanup

	dropped int       // since they were last told
	toldAt  time.Time // when they were; zero: never
}

// add keeps c behind those that are due no later. If there are too many then,
// add drops the one that is due last.
func (b *backlog) add(c *Cleanup) {
	at, _ := slices.BinarySearchFunc(b.all, c, func(one, c *Cleanup) int {
		if one.due.After(c.due) {
			return 1
		}
		return -1
	})
	b.all = slices.Insert(b.all, at, c)
	if len(b.all) > cleanupMost {
		b.all = slices.Delete(b.all, cleanupMost, len(b.all))
		b.dropped++
	}
}

// tell returns how many cleanups were dropped and not told yet. While more are
// dropped, it does so once in tellEvery. At the end of the backlog it tells
// all.
func (b *backlog) tell(now time.Time) (dropped int) {
	if !b.toldAt.IsZero() && now.Sub(b.toldAt) < tellEvery && len(b.all) > 0 {
		return 0
	}
	if dropped, b.dropped = b.dropped, 0; dropped > 0 {
		b.toldAt = now
	}
	return dropped
}

// take takes a batch of cleanups that are due. With all, it also takes cleanups
// that are not due.
func (b *backlog) take(now time.Time, all bool) []*Cleanup {
	n := 0
	for n < min(len(b.all), cleanupBatch) && (all || !b.all[n].due.After(now)) {
		n++
	}
	due := slices.Clone(b.all[:n])
	b.all = slices.Delete(b.all, 0, n)
	return due
}
