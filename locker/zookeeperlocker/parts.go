package zookeeperlocker

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

const (
	// partMax is how much of a value travels in one request. None is more than
	// twice as long.
	partMax = 600 << 10
	// partLonger is by how much the first part of a value outlives the rest.
	partLonger = 5 * sweepEvery
)

// writePart writes the first part of a value that is too long for the
// transaction, before the row with the rest. A part that no row names any more
// stays until the janitor deletes it.
func (r *rows) writePart(ctx context.Context, p *pending) error {
	i := slices.IndexFunc(p.change.Rows, func(r rowlocker.Row) bool {
		return r.Version == rowlocker.Any && r.Value != nil
	})
	if i >= 0 && p.size() > partMax {
		row, id := &p.change.Rows[i], lockerkit.NewID()
		value := row.Value[:min(len(row.Value), partMax)]
		data := head{state: first, keep: min(row.KeepFor, keepMax) + partLonger}.pack(value)
		err := r.make(ctx, r.partPath(id), data)
		if errors.Is(err, zk.ErrNoNode) {
			err = cmp.Or(r.ensure(ctx, r.root+"/v"), r.make(ctx, r.partPath(id), data))
		}
		if err != nil {
			return err
		}
		p.split, p.part, p.partLen = row, id, len(value)
	}
	if p.size() > requestMax {
		return errLong
	}
	return nil
}

// joinParts returns a value of which the rest was read, or nil if the part is
// gone.
func (r *rows) joinParts(ctx context.Context, id string, rest []byte) ([]byte, error) {
	n, err := r.get(ctx, r.partPath(id), false)
	if err != nil || n.stat == nil {
		return nil, err
	}
	_, value, _ := parse(n.value)
	return slices.Concat(value, rest), nil
}
