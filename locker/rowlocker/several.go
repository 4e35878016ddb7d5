package rowlocker

import (
	"context"
	"errors"
	"time"
)

// together acquires different keys in one step, see [locker.Several].
func (d *desk) together(ctx context.Context, qs []*request, prefix bool) (results []result, held int, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	ts := make([]*task, len(qs))
	for i, q := range qs {
		ts[i] = &task{key: q.key, qs: qs[i : i+1]}
	}
	for {
		if err := d.load(ctx, ts); err != nil {
			return nil, 0, unwritten(err)
		}
		rows, again := map[string]*row{}, false
		for _, t := range ts {
			t.tries++
			t.r = d.decode(&t.src)
			rows[t.key] = t.r
		}
		results, held = acquireAll(rows, qs, prefix)
		for _, t := range ts {
			if !t.r.dirty && !t.sure { // nothing verifies what is known
				t.have, again = false, true
			}
		}
		if again {
			continue
		}
		whole := d.whole(ts, results)
		if len(whole.Rows) == 0 {
			return results, held, nil
		}
		sent := time.Now()
		if err = errors.Join(d.rows.Swap(ctx, []*Change{whole}), whole.Err); err != nil {
			for _, t := range ts {
				d.memory.forget(t.key)
			}
			return nil, 0, err
		}
		if d.spread(whole, ts, sent); whole.Done {
			return results, held, nil
		}
		d.died(whole)
	}
}

// whole returns the Change that writes all rows that have changed.
func (d *desk) whole(ts []*task, results []result) *Change {
	whole := &Change{}
	for i, t := range ts {
		t.results, t.change = results[i:i+1], nil
		if !t.r.dirty {
			continue
		}
		t.change = d.changeOf(t)
		for _, m := range t.change.Tell {
			m.Row += len(whole.Rows)
			whole.Tell = append(whole.Tell, m)
		}
		whole.Rows = append(whole.Rows, t.change.Rows...)
	}
	return whole
}

// spread gives each task its part of what became of the whole.
func (d *desk) spread(whole *Change, ts []*task, sent time.Time) {
	at := 0
	for _, t := range ts {
		if t.change == nil {
			continue
		}
		if whole.Done {
			t.change.Version, t.change.Written = whole.Version, whole.Written
			t.change.Rows[0].Tag = whole.Rows[at].Tag
			d.settle(t, sent)
		} else {
			d.knows(t, whole.Current[at])
		}
		at += len(t.change.Rows)
	}
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
