package sqllease

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	sweepEvery = 5 * time.Minute
	sweepAfter = 20 * time.Minute // for which nobody has owned a key when its row goes
	sweepLimit = 5 * time.Second
)

// sweep deletes the rows of keys that nobody uses, from time to time. A row
// that is deleted and comes back has its tokens from the clock, which is ahead.
func (l *Locker) sweep() {
	for sleep(l.ctx, sweepEvery/2+rand.N(sweepEvery)) {
		for more := true; more; {
			ctx, cancel := context.WithTimeout(l.ctx, sweepLimit)
			more, _ = Sweep(ctx, l) // the next process or turn tries again
			cancel()
		}
	}
}

// Sweep deletes some rows of keys that nobody uses. It returns whether there may
// be more. A Locker calls it by itself.
func Sweep(ctx context.Context, l *Locker) (more bool, err error) {
	return l.table.sweep(ctx, sweepAfter)
}
