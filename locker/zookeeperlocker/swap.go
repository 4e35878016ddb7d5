package zookeeperlocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

const (
	// requestMax bounds the values of a transaction. ZooKeeper takes no more
	// than 1 MB in a request.
	requestMax = 900 << 10
	// swapTries is how often a transaction is sent again that was refused.
	swapTries = 200
)

// Swap sends the changes in one transaction, and again without each that is
// refused. Of those it reads the rows.
func (r *rows) Swap(ctx context.Context, changes []*rowlocker.Change) error {
	all := make([]*pending, len(changes))
	for i, c := range changes {
		c.Done, c.Current, c.Dead, c.Version, c.Err = false, nil, nil, 0, nil
		all[i] = &pending{change: c, gone: map[string]bool{}, there: map[string]bool{}}
	}
	r.foresee(ctx, all)
	left := slices.DeleteFunc(slices.Clone(all), func(p *pending) bool {
		return p.change.Current != nil || p.fail(unsent(r.writePart(ctx, p))) != nil
	})
	for len(left) > 0 {
		n := 1
		for size := left[0].size(); n < len(left) && size+left[n].size() <= requestMax; n++ {
			size += left[n].size()
		}
		r.swap(ctx, left[:n:n])
		left = left[n:]
	}
	refused := slices.DeleteFunc(all, func(p *pending) bool {
		return p.change.Done || p.change.Err != nil || p.change.Current != nil
	})
	_ = lockerkit.Each(len(refused), flights, func(i int) error {
		return refused[i].fail(unsent(r.reread(ctx, refused[i])))
	})
	if len(changes) == 1 {
		return changes[0].Err
	}
	return nil
}

// foresee refuses the changes that a ticket is likely to refuse again, if that
// stands there: who hands a key over mostly comes back at once. A refusal by
// ZooKeeper is a write to its log, and costs as much as one.
func (r *rows) foresee(ctx context.Context, all []*pending) {
	all = slices.DeleteFunc(slices.Clone(all), func(p *pending) bool { return !r.doubts(p.change) })
	_ = lockerkit.Each(len(all), flights, func(i int) error {
		row := &all[i].change.Rows[0]
		now, _, err := r.fetch(ctx, row.Key, how{crowded: true})
		others := slices.ContainsFunc(now.Tickets, func(t rowlocker.Ticket) bool {
			return !slices.ContainsFunc(row.Drop, func(d rowlocker.Ticket) bool { return d.Name == t.Name })
		})
		if r.crowds(row.Key, others); err == nil && others && now.Version == row.Version {
			all[i].change.Current = []rowlocker.Row{now}
		}
		return nil
	})
}

// doubts reports whether other tickets would refuse a Change, and did the last.
func (r *rows) doubts(c *rowlocker.Change) bool {
	if len(c.Rows) != 1 || c.Rows[0].Version <= 0 {
		return false
	}
	old, ok := parseTag(c.Rows[0].Tag)
	return ok && alone(&c.Rows[0], old) && r.crowded(c.Rows[0].Key)
}

// fail sets the error of a Change.
func (p *pending) fail(err error) error {
	if err != nil {
		p.change.Err = tryError(err)
	}
	return err
}

// size is about how long the change is in a request.
func (p *pending) size() (n int) {
	n -= p.partLen
	for _, row := range p.change.Rows {
		n += len(row.Value)
	}
	for _, m := range p.change.Tell {
		n += min(len(p.change.Rows[m.Row].Value), messageMax)
	}
	return n
}

// unsent says that nothing was done.
func unsent(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", locker.ErrUnsent, err)
}

// reread reads the rows of a change that was refused.
func (r *rows) reread(ctx context.Context, p *pending) error {
	var keys []string
	c := p.change
	if c.Join != nil {
		keys = append(keys, c.Join.Key)
	}
	for _, row := range c.Rows {
		keys = append(keys, row.Key)
	}
	c.Current = make([]rowlocker.Row, len(keys))
	return lockerkit.Each(len(keys), flights, func(i int) (err error) {
		c.Current[i], _, err = r.fetch(ctx, keys[i], how{missing: p.missing, crowded: p.crowded})
		return err
	})
}

// swap carries out changes in one transaction. Those that are neither done nor
// have an error were refused.
func (r *rows) swap(ctx context.Context, left []*pending) {
	conflicts := 0
	for range swapTries {
		left = slices.DeleteFunc(left, func(p *pending) bool { return !r.plan(p) })
		var ops []any
		var whose []int // which of left
		for i, p := range left {
			for _, o := range p.ops {
				ops, whose = append(ops, o.request), append(whose, i)
			}
		}
		res, err := result{}, error(nil)
		if len(ops) > 0 {
			res, err = r.multi(ctx, ops)
		}
		if err != nil || res.refused == nil {
			for _, p := range left {
				if p.fail(err) == nil {
					r.done(p, res.zxid)
				}
			}
			return
		}
		i := whose[res.at]
		p := left[i]
		again, err := r.resolve(ctx, p, p.ops[res.at-slices.Index(whose, i)], res.refused)
		if p.fail(err) != nil || !again {
			left = slices.Delete(left, i, i+1)
			conflicts++
		}
		if conflicts >= conflictsMax && len(left) > 1 {
			_ = lockerkit.Each(len(left), flights, func(i int) error { r.swap(ctx, left[i:i+1:i+1]); return nil })
			return
		}
	}
	for _, p := range left {
		_ = p.fail(errChanging)
	}
}

// conflictsMax is after how many conflicts the changes travel by themselves.
const conflictsMax = 2

// done notes that a Change was carried out.
func (r *rows) done(p *pending, zxid int64) {
	c := p.change
	c.Done, c.Version = true, zxid
	if j := c.Join; j != nil {
		r.knows(j.Key, rowlocker.Ticket{Name: j.Name, Version: zxid, Value: j.Value}, true)
	}
	for i := range c.Rows {
		c.Rows[i].Tag = p.tags[i]
		r.written(&c.Rows[i], zxid)
	}
}

// resolve finds out why an operation was refused, and reports whether the
// Change may be sent again.
func (r *rows) resolve(ctx context.Context, p *pending, o op, why error) (again bool, err error) {
	none, there := errors.Is(why, zk.ErrNoNode), errors.Is(why, zk.ErrNodeExists)
	switch {
	case !none && !there && !errors.Is(why, zk.ErrBadVersion) && !errors.Is(why, zk.ErrNotEmpty):
		return false, why
	case errors.Is(why, zk.ErrNotEmpty):
		p.crowded = true
		r.crowds(p.change.Rows[0].Key, true)
	case none && o.purpose == marks:
		p.missing = o.path[strings.LastIndexByte(o.path, '/')+1:]
		return false, nil
	case none && (o.purpose == drops || o.purpose == tells):
		p.gone[o.path] = true
		return true, nil
	case none && o.purpose == must:
		p.change.Dead = append(p.change.Dead, o.to)
		return false, nil
	case none && (o.purpose == makes || o.purpose == remakes):
		return true, r.ensure(ctx, o.path[:strings.LastIndexByte(o.path, '/')])
	case there && o.purpose == remakes, none && o.purpose == sets:
		p.there[o.path] = there
		return true, nil
	case there && o.purpose == joins: // by an earlier request without an answer
		n, err := r.get(ctx, o.path, false)
		if err == nil && n.stat != nil {
			r.done(p, n.stat.Czxid)
		}
		return false, err
	}
	return false, nil
}
