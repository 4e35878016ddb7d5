package lockerkit

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

const (
	firstLimit = 250 * time.Millisecond
	lastLimit  = 2 * time.Second // short limits find a new leader or connection soon
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// Life is the Gate of a Locker that works between calls too: it has goroutines
// of its own, and requests that go on when their callers have returned.
//
// A Life is safe for concurrent use.
type Life struct {
	Gate

	closing chan struct{} // closed first by Close
	// ctx ends what runs in the background. Close ends it by cancel when no
	// call is in progress any more.
	ctx    context.Context
	cancel context.CancelFunc

	stop    sync.Mutex // guards stopped; never held across I/O or a callback
	stopped bool       // no service begins any more
	service sync.WaitGroup
}

// NewLife returns the Life of a Locker of the package that is named store.
func NewLife(store string) *Life {
	l := &Life{Gate: Gate{Store: store}, closing: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // of the Locker, until Close
	return l
}

// Closing is closed when Close begins: what is left to do is done at once.
func (l *Life) Closing() <-chan struct{} { return l.closing }

// Context ends when Close has waited for all calls, and by Stop.
func (l *Life) Context() context.Context { return l.ctx }

// Serve runs f in a goroutine of the Locker, which must end with Context. After
// that it does nothing.
func (l *Life) Serve(f func()) {
	l.stop.Lock()
	defer l.stop.Unlock()
	if !l.stopped {
		l.service.Go(f)
	}
}

// Stop ends Context at once, for a Close that does not wait any more.
func (l *Life) Stop() {
	l.stop.Lock()
	defer l.stop.Unlock()
	l.stopped = true
	l.cancel()
}

// Close is Gate.Close. When no call is in progress any more, it calls leave,
// which takes the Locker out of queues. Then it ends Context, waits for the
// goroutines of Serve, and calls end, which ends connections.
func (l *Life) Close(ctx context.Context, leave, end func()) error {
	return l.Gate.Close(ctx, func() {
		close(l.closing)
		l.Wait()
		leave()
		l.Stop()
		l.service.Wait()
		end()
	})
}

// Insist calls try until it is done, the time is over, or Context ends. Close
// ends the first of the pauses between.
func (l *Life) Insist(until time.Time, try func(ctx context.Context) (done bool)) {
	closing := l.closing
	for limit, pause := firstLimit, firstPause; time.Now().Before(until) && l.ctx.Err() == nil; {
		ctx, cancel := context.WithTimeout(l.ctx, limits.Apart(limit))
		done := try(ctx)
		cancel()
		if done {
			return
		}
		if !Pause(pause/2+limits.Jitter(pause), closing) {
			closing, limit, pause = nil, firstLimit, firstPause/2 // once
		}
		limit, pause = min(2*limit, lastLimit), min(2*pause, lastPause)
	}
}

// Pause waits for d, or until done is closed. It reports whether d has passed.
func Pause(d time.Duration, done <-chan struct{}) bool {
	t := time.NewTimer(limits.Apart(d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}
