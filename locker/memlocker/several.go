package memlocker

import (
	"context"

	"github.com/go-lockguard/guard/locker"
)

// AcquireAll makes each claim the owner of its key, or only those in front of
// the first key that is held if prefix, or none.
func (l *Locker) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return nil, 0, err
	}
	as = make([]locker.Answer, len(cs))
	for held < len(cs) {
		e := l.store.at(cs[held].Key)
		if e.held(now) && e.share(cs[held].Owner, now) == nil {
			as[held] = e.answer(now)
			break
		}
		held++
	}
	if held < len(cs) && !prefix {
		return as, held, nil
	}
	for i, c := range cs[:held] {
		l.sign(c)
		as[i] = locker.Answer{
			Acquired: true, Token: l.store.grant(l.store.at(c.Key), l, c, now.Add(c.First()), now),
		}
	}
	return as, held, nil
}

// ReleaseAll is Release for each claim.
func (l *Locker) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(i int, r locker.Released, err error),
) {
	for i, c := range cs {
		r, err := l.Release(ctx, c, ends[i])
		answered(i, r, err)
	}
}
