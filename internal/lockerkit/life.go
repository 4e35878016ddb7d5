package lockerkit

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

// Life is the Gate of a Locker that works between calls too, in goroutines of
// its own.
//
// A Life is safe for concurrent use.
type Life struct {
	Gate

	ctx     context.Context // of what runs in the background
	cancel  context.CancelFunc
	service sync.WaitGroup // the goroutines of Serve
}

// NewLife returns the Life of a Locker of the package that is named store.
func NewLife(store string) *Life {
	l := &Life{Gate: Gate{Store: store}}
	l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // of the Locker, until Close
	return l
}

// Context ends when Close has waited for all calls.
func (l *Life) Context() context.Context { return l.ctx }

// Serve runs f in a goroutine of the Locker, which must end with Context. Only
// the function that Open calls may call Serve.
func (l *Life) Serve(f func()) { l.service.Go(f) }

// Close is Gate.Close. When no call is in progress any more, it calls leave,
// which takes the Locker out of queues. Then it ends Context, waits for the
// goroutines of Serve, and calls end, which ends connections.
func (l *Life) Close(ctx context.Context, leave, end func()) error {
	return l.Gate.Close(ctx, func() {
		l.Wait()
		leave()
		l.cancel()
		l.service.Wait()
		end()
	})
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
