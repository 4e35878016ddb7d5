package redislocker

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

const (
	cleanLimit = time.Second // for one request that cleans up
	cleanAgain = time.Second // until the second cleaning: by then a try that was on its way has arrived
	cleanTries = 6           // then the TTL has to do; the pauses double, so that this is half a minute
	cleanBatch = 256         // keys in one request
)

// Abandon frees c's key in the background by owner id, at once and again a second later, and wakes who waits for it. If
// the second time brings no answer, it goes on for half a minute: a server that hangs does what it was asked when it
// goes on.
func (l *Locker) Abandon(c *guard.Claim) {
	if l.client != nil {
		k := l.keys(c.Key)
		l.janitor.add(chore{calls: []call{cleanCall(k, c.Owner), l.wakeCall(c.Key, k, nobody, false)}, again: true})
	}
}

// PassOn wakes the next instance in the background.
func (l *Locker) PassOn(key string) {
	if l.client != nil {
		l.janitor.add(chore{calls: []call{l.wakeCall(key, l.keys(key), nobody, false)}})
	}
}

func cleanCall(k keys, owner string) call { return newCall(cleanScript, 1, k.lock, owner) }

// clean sends the chores as one request and reports for each whether it was answered.
func (l *Locker) clean(ctx context.Context, due []chore) []bool {
	var calls []call
	for _, c := range due {
		calls = append(calls, c.calls...)
	}
	answers := l.run(ctx, calls...)
	answered := make([]bool, len(due))
	for i, c := range due {
		err := answers[0].Err()
		answered[i] = err == nil || l.refused(err)
		answers = answers[len(c.calls):]
	}
	return answered
}

// chore is a key to be freed or announced as free.
type chore struct {
	calls []call // the answer to the first counts
	again bool   // once more after cleanAgain, and then until it was answered
	due   time.Time
	tries int
}

// janitor does chores in the background. Its goroutine is there while there are any.
type janitor struct {
	clean func(context.Context, []chore) []bool

	ctx    context.Context // of all cleaning; outlives the calls that left the chores
	cancel context.CancelFunc
	wake   chan struct{} // holds one: there are new chores, or closing was set

	mu      sync.Mutex // guards what follows; never held across I/O
	chores  []chore
	closing bool
	done    chan struct{} // closed by the goroutine when it ends; nil if there is none
}

func newJanitor(clean func(context.Context, []chore) []bool) *janitor {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // no caller waits for this work; Close ends it
	return &janitor{clean: clean, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1)}
}

// add starts the goroutine if it is not there. It is a no-op once the janitor closes.
func (j *janitor) add(c chore) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closing {
		return
	}
	c.due = time.Now()
	j.chores = append(j.chores, c)
	if j.done == nil {
		j.done = make(chan struct{})
		go j.work()
		return
	}
	j.poke()
}

func (j *janitor) poke() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// work ends when no chore is left.
func (j *janitor) work() {
	for {
		due, pause, ok := j.next(time.Now())
		switch {
		case !ok:
			return
		case len(due) > 0:
			ctx, cancel := context.WithTimeout(j.ctx, cleanLimit)
			answered := j.clean(ctx, due)
			cancel()
			j.settle(due, answered)
		default:
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-j.wake:
			}
			timer.Stop()
		}
	}
}

// next takes a batch of chores that are due, all of them when closing, or says when the next will be. With none left it
// ends the goroutine's term: ok is false.
func (j *janitor) next(now time.Time) (due []chore, pause time.Duration, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.chores) == 0 {
		close(j.done)
		j.done = nil
		return nil, 0, false
	}
	pause = cleanAgain << cleanTries
	rest := j.chores[:0]
	for _, c := range j.chores {
		if left := c.due.Sub(now); (left <= 0 || j.closing) && len(due) < cleanBatch {
			due = append(due, c)
		} else {
			rest = append(rest, c)
			pause = min(pause, max(left, 0))
		}
	}
	j.chores = rest
	return due, pause, true
}

// settle decides which chores come again: those that must after their first time, and later those without an answer.
func (j *janitor) settle(done []chore, answered []bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	for i, c := range done {
		c.tries++
		if !c.again || c.tries > 1 && (answered[i] || j.closing) || c.tries == cleanTries {
			continue
		}
		c.due = now.Add(cleanAgain << (c.tries - 1))
		j.chores = append(j.chores, c)
	}
}

// finish lets the janitor do what is left at once, takes no more, and waits until it has ended.
func (j *janitor) finish() {
	defer j.cancel()
	if done := j.close(); done != nil {
		<-done
	}
}

func (j *janitor) close() (done <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closing = true
	j.poke()
	return j.done
}

// giveUp makes every request that finish has yet to send fail at once.
func (j *janitor) giveUp() { j.cancel() }
