package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// KeepFor says how long the result of the innermost function of [Once] in ctx
// is kept, in place of the ttl of the call. The function calls it when it knows
// that, such as from the expiry of a token. d counts from the end of the
// function, in whole milliseconds. 0 keeps nothing, so that the next call runs
// its function. Of several calls the last one counts.
//
// A d that is negative or above locker.MaxRecordTTL is ErrInvalidOption. Then
// nothing is kept either, and Once returns that error as an ErrNotRecorded
// beside the result. KeepFor returns ErrNoLease if ctx is not that of a
// function of Once that runs, and ErrInvalidOption if ctx is nil. It does not
// block, and is safe for concurrent use.
//
// Errors are not kept, whatever d is, but for those of [Final]. Under
// [WithAtMostOnce] the ttl of the call still counts for the mark.
func KeepFor(ctx context.Context, d time.Duration) error {
	if ctx == nil {
		return errNilContext
	}
	for l := leaseIn(ctx); l != nil; l = l.enclosing {
		switch {
		case l.keeping == nil:
		case l.isReleased(): // d is not for a function of Once around it
			return errNotInOnce
		default:
			return l.keeping.set(d)
		}
	}
	return errNotInOnce
}

var errNotInOnce = fmt.Errorf("%w: KeepFor outside of a function of Once", ErrNoLease)

// keeping is what one call of Once keeps, and for how long.
type keeping struct {
	recall turns.Recall
	ttl    time.Duration // unless its function has set another one
	own    atomic.Int64  // 0, or what the function has set: 1 more than the milliseconds, or below 0 if that was wrong
	keeps  bool          // there is something to keep; the goroutine's that runs the function
}

// set is KeepFor.
func (k *keeping) set(d time.Duration) error {
	if d >= 0 && d <= locker.MaxRecordTTL {
		k.own.Store(1 + d.Milliseconds())
		return nil
	}
	k.own.Store(-1)
	return errKeepFor
}

var errKeepFor = fmt.Errorf("%w: KeepFor of a negative time, or of more than %v", ErrInvalidOption, locker.MaxRecordTTL)

// life returns for how long a result is kept. The error is that of KeepFor.
func (k *keeping) life() (time.Duration, error) {
	switch own := k.own.Load(); {
	case own < 0:
		return 0, errKeepFor
	case own > 0:
		return time.Duration(own-1) * time.Millisecond, nil
	}
	return k.ttl, nil
}

// keep makes the release of l keep m, which its function has left beside err.
// keep returns the error of the call.
func (l *Lease) keep(ctx context.Context, m made, mark []byte, err error) error {
	k, g := l.keeping, l.guard
	life, wrong := k.life()
	switch {
	case m.kind == 0 && !errnote.Is(err, errnote.NothingDone(true)):
		return err
	case m.kind != 0 && wrong != nil:
		return errors.Join(fmt.Errorf("%w: %w", ErrNotRecorded, wrong), err)
	case l.bare:
	case m.kind != 0 && life > 0:
		k.keeps = true
		k.recall.Keep(g.record(ctx, m, mark, life))
	case g.atMostOnce:
		l.turn.Unmark()
	}
	return err
}
