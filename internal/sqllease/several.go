package sqllease

import (
	"context"

	"github.com/go-lockguard/guard/locker"
)

var _ locker.Several = (*Locker)(nil)

// AcquireAll makes each claim the owner of its key, or only those in front of
// the first key that is held if prefix, or none. It takes a read and a write.
func (l *Locker) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	if err := l.gate.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.gate.Leave()
	var results []result
	batch := make([]*request, len(cs))
	for i, c := range cs {
		batch[i] = l.acquiring(c, locker.Try{})
	}
	unsent, err := l.table.change(ctx, batch, func(rows map[string]*row) {
		results, held = acquireAll(rows, batch, prefix)
	})
	if err != nil {
		return nil, 0, l.unclear(reply{err: err, unsent: unsent})
	}
	as = make([]locker.Answer, len(cs))
	for i, r := range results {
		if as[i] = r.answer(); r.ok {
			l.owns(cs[i].Key, cs[i].Owner)
		}
	}
	return as, held, nil
}

// acquireAll applies a batch to its rows, each key once.
func acquireAll(rows map[string]*row, batch []*request, prefix bool) (results []result, held int) {
	results = make([]result, len(batch))
	for held < len(batch) {
		q := batch[held]
		if r := rows[q.key]; !r.free() && !r.owned(q.owner) {
			results[held] = r.apply(q) // says who owns it
			break
		}
		held++
	}
	if held < len(batch) && !prefix {
		return results, held
	}
	for i, q := range batch[:held] {
		results[i] = rows[q.key].apply(q)
	}
	return results, held
}

// ReleaseAll is Release for each claim. It takes a read and a write.
func (l *Locker) ReleaseAll(
	ctx context.Context, cs, nexts []*locker.Claim, answered func(i int, r locker.Released, err error),
) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, locker.Released{}, err)
		}
		return
	}
	defer l.gate.Leave()
	batch := make([]*request, len(cs))
	for i, c := range cs {
		batch[i] = l.releasing(request{verb: release, key: c.Key, owner: c.Owner}, nexts[i])
	}
	var results []result
	unsent, err := l.table.change(ctx, batch, func(rows map[string]*row) { results = applyAll(rows, batch) })
	for i := range cs {
		r := reply{err: err, unsent: unsent}
		if err == nil {
			r.result = results[i]
		}
		released, err := l.released(r, nexts[i])
		answered(i, released, err)
	}
}
