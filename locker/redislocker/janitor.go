package redislocker

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const (
	cleanLimit = time.Second          // for one request that cleans up
	cleanAgain = time.Second          // until the second cleaning: by then a try that was on its way has arrived
	cleanSoon  = 5 * time.Millisecond // until the second if the first had no answer
	cleanTries = 7                    // then the TTL has to do; the pauses double, so that this is half a minute
	cleanBatch = 256                  // keys in one request
	cleanMost  = 4096                 // chores of a node that are kept; what comes on top is left to its TTL
)

// Abandon frees c's key in the background by owner id, or hands it on, and
// takes c out of the queue: at once, and with late again a second later. If
// there is no answer it goes on for half a minute: a server that hangs does
// what it was asked when it goes on. Beyond some thousand keys that wait for
// that, the rest is left to the TTL.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.client == nil {
		return
	}
	st := l.state(c)
	l.recent.note(c.Key, c.Owner, c.TTL) // in an outage the janitor's pauses grow; a new primary need not wait for them
	l.janitor.add(l.node(c.Key), chore{call: l.releaseCall(c.Key, st.keys, c.Owner, st.entry, ""), again: late})
}

// giveBack releases a key that was granted to nobody here (law 3).
func (l *Locker) giveBack(key, owner string) {
	l.janitor.add(l.node(key), chore{call: l.releaseCall(key, l.keys(key), owner, "", "")})
}

// clean sends the chores as one request and reports for each whether it was
// answered.
func (l *Locker) clean(ctx context.Context, due []chore) []bool {
	calls := make([]call, len(due))
	for i, c := range due {
		calls[i] = c.call
	}
	answered := make([]bool, len(due))
	for i, answer := range l.run(ctx, calls...) {
		err := answer.Err()
		answered[i] = err == nil || l.refused(err)
	}
	return answered
}

// chore is a key to be freed.
type chore struct {
	call  call
	again bool      // once more when cleanAgain has passed
	came  time.Time // when it was added
	tries int
	due   time.Time
}

// janitor does chores in the background, those of each node by themselves, so
// that one that hangs delays no other.
type janitor struct {
	clean func(context.Context, []chore) []bool

	ctx    context.Context // of all cleaning; outlives the calls that left the chores
	cancel context.CancelFunc
	lanes  sync.WaitGroup // those at work

	mu      sync.Mutex // guards what follows, and the lanes; never held across I/O
	nodes   map[string]*lane
	closing chan struct{} // closed by finish
	closed  bool
}

func newJanitor(clean func(context.Context, []chore) []bool) *janitor {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // no caller waits for this work; Close ends it
	return &janitor{
		clean: clean, ctx: ctx, cancel: cancel, nodes: make(map[string]*lane), closing: make(chan struct{}),
	}
}

// add starts the node's goroutine if it is not there. It is a no-op once the
// janitor closes.
func (j *janitor) add(node string, c chore) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	ln := j.nodes[node]
	if ln == nil {
		ln = &lane{wake: make(chan struct{}, 1)}
		j.nodes[node] = ln
		j.lanes.Go(func() { j.work(node, ln) }) // ends when the lane is empty
	}
	c.came = time.Now()
	c.due = c.came
	ln.add(c)
	select {
	case ln.wake <- struct{}{}:
	default:
	}
}

// work does the chores of one node until none is left.
func (j *janitor) work(node string, ln *lane) {
	for {
		due, pause, ok := j.next(node, ln)
		switch {
		case !ok:
			return
		case len(due) > 0:
			ctx, cancel := context.WithTimeout(j.ctx, cleanLimit)
			answered := j.clean(ctx, due)
			cancel()
			j.settle(ln, due, answered)
		default:
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ln.wake:
			case <-j.closing:
			}
			timer.Stop()
		}
	}
}

// next takes a batch of chores that are due, all of them when closing, or says
// when the next will be. With none left it ends the lane: ok is false.
func (j *janitor) next(node string, ln *lane) (due []chore, pause time.Duration, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if ln.empty() {
		delete(j.nodes, node)
		return nil, 0, false
	}
	now := time.Now()
	return ln.take(now, j.closed), ln.pause(now), true
}

// settle decides which chores come again: those that must a second time, and
// those without an answer.
func (j *janitor) settle(ln *lane, done []chore, answered []bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	for i, c := range done {
		c.tries++
		early := c.again && now.Before(c.came.Add(cleanAgain))
		if answered[i] && !early || c.tries == cleanTries || j.closed && c.tries > 1 {
			continue
		}
		switch {
		case answered[i]:
			c.due = c.came.Add(cleanAgain)
		case c.tries == 1: // its connection may have died just then
			c.due = now.Add(cleanSoon)
		default:
			c.due = now.Add(cleanAgain << (c.tries - 2))
		}
		ln.add(c)
	}
}

// finish lets the janitor do what is left at once, takes no more, and waits
// until it has ended.
func (j *janitor) finish() {
	j.mu.Lock()
	j.closed = true
	close(j.closing)
	j.mu.Unlock()
	j.lanes.Wait()
	j.cancel()
}

// giveUp makes every request that finish has yet to send fail at once.
func (j *janitor) giveUp() { j.cancel() }
