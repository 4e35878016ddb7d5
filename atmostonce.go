package guard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/turns"
)

// WithAtMostOnce makes [Once] run a function at most once, also after a crash.
// It is for work that must rather be left undone than done twice, such as a
// payment.
//
// The store marks the key before the function runs. The result takes the place
// of the mark. If there is none, because of a crash, a lost lease, a panic or
// an error of the function, later calls get [ErrInterrupted]. They do so for
// ttl. After a crash or a loss it is up to MaxHold longer. Somebody finds out
// what was done, and calls [Guard.Forget] if the function may run again. A
// function that knows that it has done nothing returns [NothingDone].
//
// Give the option to all calls of Once for the key. It needs a MaxHold, without
// which Once returns ErrInvalidOption. A first call has one more round trip. A
// failover that loses the mark loses the promise. [WithFailOpen] does not
// apply, even with [OnceToo].
func WithAtMostOnce() Option {
	return setting{set: func(c *config) { c.atMostOnce = true }}
}

// NothingDone marks err as the error of a function that has had no effect, such
// as that of a connection that was refused. The next call of [Once] under
// [WithAtMostOnce] then runs its function. The text stays that of err, and
// errors.Is and errors.As find the same in it. Without that option it has no
// meaning. It says nothing of a function around the call of Once. err must not
// be nil.
func NothingDone(err error) error {
	if err == nil {
		panic("guard: NothingDone of a nil error")
	}
	return errnote.With(err, errnote.NothingDone(true))
}

// begin marks that a function runs under l, whose result is kept for ttl, and
// makes the mark what is kept whatever becomes of it. After an error l is
// released, and no function may run.
func (g *Guard) begin(ctx context.Context, l *Lease, recall *turns.Recall, fingerprint []byte,
	ttl time.Duration,
) error {
	if !g.atMostOnce {
		return nil
	}
	began := false
	defer func() { // also after a panic or Goexit of an observer or the locker
		if !began {
			_ = l.release(ctx, false)
		}
	}()
	mark := g.record(l.hold.ctx, output{kind: recordInterrupted}, fingerprint, ttl)
	recall.Keep(mark, false)
	if mark.TTL < math.MaxInt64-g.set.MaxHold {
		mark.TTL += g.set.MaxHold.Truncate(time.Millisecond)
	}
	err := l.turn.Begin(ctx, mark)
	if errors.Is(err, ErrLeaseLost) {
		err = fmt.Errorf("%w: the key was lost before the function began", ErrUnavailable)
	}
	began = err == nil
	return err
}
