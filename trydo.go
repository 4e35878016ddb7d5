package guard

import (
	"context"
	"errors"
)

// TryDo is [Guard.Do] for work that is skipped while somebody else does it, as
// a job that every instance starts: if key is held, also by a call of this
// process, it returns false and no error without waiting. It blocks for one
// attempt, as [Guard.TryAcquire] does, and for fn. ran says whether fn ran; err
// is one of Do's otherwise: nobody knows who holds the key if it Is
// ErrUnavailable, for one.
//
// A job that is shorter than the difference of the instances' clocks runs on
// each in turn: add [WithMinHold].
func (g *Guard) TryDo(ctx context.Context, key string, fn func(ctx context.Context) error) (ran bool, err error) {
	if fn == nil {
		return false, errNilFunc
	}
	l, err := g.TryAcquire(ctx, key)
	switch held := (*HeldError)(nil); {
	case errors.As(err, &held):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, l.run(ctx, fn)
}
