package turns

import (
	"context"
	"errors"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// Begin marks the key before a function runs under t, which recalls (law 20). It
// blocks until the answer, or for the limit of a release. It repeats a request
// without an answer until then, and uses only the values of ctx.
//
// After an error no function may run, and the release removes the mark. The
// error is ErrRecorded if the key has a record, which the call's [Recall] has
// then. Otherwise it is ErrLeaseLost or ErrUnavailable of package locker.
func (t *Turn) Begin(ctx context.Context, mark locker.Record) error {
	ctx = t.gate.engine.bounded(ctx, limits.Release(t.set.TTL))
	joins := t.gate.joined()
	found, err := t.beginOnce(ctx, mark)
	for n := 0; errors.Is(err, locker.ErrUnavailable) && t.pauses(ctx, n); n++ {
		joins = t.gate.joined()
		found, err = t.beginOnce(ctx, mark)
	}
	switch {
	case errors.Is(err, locker.ErrLeaseLost):
		err = t.grant.taken(err)
		t.grant.lose(err)
	case err == nil && found != "":
		t.gate.foundBeside(t, found, joins)
		err = ErrRecorded
	default:
		_, err = usable(err)
	}
	if err != nil {
		t.Unmark()
	}
	return err
}

// beginOnce makes one request that marks the key. It leaves time for others.
func (t *Turn) beginOnce(ctx context.Context, mark locker.Record) (found string, err error) {
	ctx = t.gate.engine.bounded(ctx, limits.Release(t.set.TTL)/3)
	return t.marker().Begin(ctx, &t.grant.bid.claim, mark)
}

// Unmark notes that no function has done anything under t. The end of t then
// keeps nothing, and removes the mark. It comes before End.
func (t *Turn) Unmark() {
	r := t.patience.Recall
	r.keep, r.undone = locker.Record{}, true
	t.marker().Unmark(&t.grant.bid.claim)
}

func (t *Turn) marker() locker.Marker {
	store, ok := t.gate.engine.locker.(locker.Marker)
	if !ok {
		panic("turns: a mark for a locker that has none")
	}
	return store
}

// foundBeside records that t, which has the key, has found a record there. It
// answers those of the first joins calls that wait for one, see [gate.answer].
func (gt *gate) foundBeside(t *Turn, record string, joins uint32) {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	t.patience.Recall.record = record
	gt.answer(record, joins)
}
