package guard

import (
	"context"
	"errors"
)

// TryDo is [Guard.Do] for work that is skipped while somebody else does it, as
// a job that every instance starts. If key is held, even by a call of this
// process, it returns false and no error without waiting. It blocks for one
// attempt, as [Guard.TryAcquire] does, and for fn.
//
// ran says whether fn ran. Any other err is one of Do's errors. For example, if
// it Is ErrUnavailable, nobody knows who holds the key.
//
// A job that is shorter than the difference of the instances' clocks runs on
// each instance in turn. Add [WithMinHold] for such a job.
func (g *Guard) TryDo(ctx context.Context, key string, fn func(ctx context.Context) error) (ran bool, err error) {
	if fn == nil {
		return false, errNilFunc
	}
	g, err = g.resolve()
	if err != nil {
		return false, err
	}
	l, err := g.acquire(ctx, key, once(), with{})
	switch held := (*HeldError)(nil); {
	case errors.As(err, &held):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, l.run(ctx, fn)
}
