package contest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/locker"
)

// cast draws the role of a call. Readers get the even keys and permits the odd
// ones, so that many readers meet. They must not meet each other: the readers
// of a process count as one beside permits. Writers and carts come to all keys.
func (p *plan) cast(rnd *rand.Rand, roles []string, keys int) {
	p.role = judge.Writer
	if len(roles) > 0 {
		p.role = roles[rnd.IntN(len(roles))]
	}
	switch p.role {
	case judge.Reader:
		p.key &^= 1
	case judge.Permit:
		if p.key |= 1; p.key >= keys {
			p.key = max(p.key-2, 0)
		}
	case judge.Cart:
		p.cart = rnd.Perm(keys)[:min(3, keys)]
	}
}

// part draws a key of the part that this process has at the time. Parts move on
// each second. One call of 32 takes any key.
func (w *Worker) part(rnd *rand.Rand) int {
	const parts = 4
	if rnd.IntN(32) == 0 {
		return rnd.IntN(w.Keys)
	}
	mine := (w.Proc + int(time.Now().Unix())) % parts
	return min(rnd.IntN(w.Keys)/parts*parts+mine, w.Keys-1)
}

// Lingers is how long a key of a partition lingers, which the shortest TTL
// allows.
const Lingers = 100 * time.Millisecond

// limit returns how many may have the key of p at once. Every second process
// lets in fewer permits, as in a deployment that changes their number. It is 0
// for a call that must be alone.
func (p plan) limit(proc int) int {
	switch p.role {
	case judge.Reader:
		return locker.NoLimit
	case judge.Permit:
		return 3 - proc%2
	}
	return 0
}

var errAlone = errors.New("this library has exclusive leases of one key only")

// acquire acquires the key of p.
func (w *Worker) acquire(ctx context.Context, p plan) (Lease, error) {
	if p.role == judge.Writer || p.role == judge.Partition {
		return w.Locker.Acquire(ctx, KeyName(p.key), p.wait)
	}
	l, ok := w.Locker.(Moded)
	if !ok {
		return nil, errAlone
	}
	return l.AcquireLimited(ctx, KeyName(p.key), p.wait, p.limit(w.Proc))
}

// fill makes the call of a cart. It has one record for each key. Its sections
// run side by side.
func (w *Worker) fill(ctx context.Context, p plan, rest time.Duration) error {
	l, ok := w.Locker.(Moded)
	if !ok {
		return errAlone
	}
	var got []judge.Record
	var names []string
	behind := time.Duration(len(p.cart)-1) * judge.TryLimit(w.TTL) // a key behind one that was held has an attempt, too
	bound := p.bound(w.TTL) + behind
	for _, key := range p.cart {
		got = append(got, judge.Record{
			N: w.visits.Add(1), Key: key, Bound: int64(bound), Cart: true, Asked: judge.Now(),
		})
		names = append(names, KeyName(key))
	}
	var failed error
	ran := false
	err := l.AcquireAll(ctx, names, p.wait, func(leases []Lease) {
		ran = true
		at := judge.Now()
		var sections sync.WaitGroup
		errs := make([]error, len(got))
		for i := range got {
			got[i].At = at
			sections.Go(func() {
				own := p
				own.key = got[i].Key
				errs[i] = w.section(own, got[i], leases[i])
			})
		}
		sections.Wait()
		failed = errors.Join(errs...)
	})
	if ran {
		return failed
	}
	at := judge.Now()
	time.Sleep(rest)
	for _, r := range got {
		r.At = at
		if e := w.refused(r, err); e != nil {
			return e
		}
	}
	return nil
}

// refused records a call that did not get its key.
func (w *Worker) refused(r judge.Record, err error) error {
	r.Kind, r.Err, r.Closing = judge.KindNot, err.Error(), w.closing.Load()
	return w.Diary.Write(r)
}
