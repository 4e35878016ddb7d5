package zookeeperlocker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// Load reads rows with all tickets.
func (r *rows) Load(ctx context.Context, keys []string) ([]rowlocker.Row, error) {
	if err := r.verify(ctx, time.Now()); err != nil {
		return nil, tryError(err)
	}
	out := make([]rowlocker.Row, len(keys))
	err := lockerkit.Each(len(keys), flights, func(i int) (err error) {
		out[i], _, err = r.fetch(ctx, keys[i], how{})
		return err
	})
	return out, tryError(err)
}

// Glance reads rows with the tickets of this process only, because each ticket
// takes a request of its own.
//
// A row that is read again and again is watched. It is known as long as its
// watch tells nothing and the connection answers, because the events of a
// connection come in front of the answers to later requests.
func (r *rows) Glance(ctx context.Context, keys []string) ([]rowlocker.Row, error) {
	out := make([]rowlocker.Row, len(keys))
	now, session := time.Now(), r.conn.SessionID()
	if err := r.verify(ctx, now); err != nil {
		return nil, tryError(err)
	}
	err := lockerkit.Each(len(keys), flights, func(i int) (err error) {
		var silent, watch bool
		key := keys[i]
		if out[i], silent, watch = r.look(key, session, now); silent {
			return nil
		}
		row, node, err := r.fetch(ctx, key, how{glance: true, watch: watch})
		if err == nil && watch && row.Tag != "" && r.conn.SessionID() == session {
			r.watches(row, node.changed, session, now)
		}
		out[i] = row
		return err
	})
	return out, tryError(err)
}

// Scan lists all shards.
func (r *rows) Scan(ctx context.Context, after string, n int) ([]rowlocker.Row, error) {
	var keys []string
	for s := range uint32(shards) {
		n, err := r.children(ctx, r.shard(s))
		if err != nil {
			return nil, tryError(err)
		}
		for _, name := range n.names {
			if key, ok := keyOf(name); ok && key > after {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return r.Load(ctx, keys[:min(n, len(keys))])
}

// how says how a row is to be read.
type how struct {
	watch   bool   // it is to be watched
	glance  bool   // without the tickets of others
	crowded bool   // there are tickets of others for sure, or almost
	missing string // name of a marker that was not there
}

// fetchTries is how often a row is read that changes while its tickets are.
const fetchTries = 32

// fetch reads a row. A key without a node has a row with Version 0.
func (r *rows) fetch(ctx context.Context, key string, how how) (row rowlocker.Row, n node, err error) {
	path := r.path(key)
	for range fetchTries {
		below := sync.OnceValues(func() (node, error) { return r.children(ctx, path) })
		if how.crowded {
			read := make(chan struct{})
			go func() { defer close(read); _, _ = below() }() // ends with ctx
			defer func() { <-read }()
		}
		if n, err = r.get(ctx, path, how.watch); err != nil || n.stat == nil {
			return rowlocker.Row{Key: key}, n, err
		}
		h, value, ok := parse(n.value)
		row = rowlocker.Row{Key: key, Version: n.stat.Mzxid, Value: value}
		switch {
		case !ok:
			row.Value = []byte("?") // nobody's, for ever
			return row, n, nil
		case h.state == split:
			row.Value, err = r.joinParts(ctx, h.gen, value)
			return row, n, err
		case h.state == blind:
			return row, n, nil
		}
		t := tag{h.state, h.gen, n.stat.Version, h.record}
		if n.stat.NumChildren == 0 {
			t.state = unmarked
		}
		row.Tag, row.Vacant, row.Forgot = t.String(), h.held == 0, !h.record.left()
		none := n.stat.NumChildren <= 1
		ours, old := r.merged(key, value, row.Version, none)
		glance := how.glance && !old
		if how.missing != t.markerName() && (none || glance && !ours) {
			return row, n, nil
		}
		if tickets, ok := r.stay(&row, n.stat.Pzxid); ok && glance {
			row.Tickets = tickets
			return row, n, nil
		}
		if ok, err := r.fill(ctx, path, &row, t, glance, below); ok || err != nil {
			return row, n, err
		}
	}
	return row, n, errChanging
}

// fill adds what stands below a row, and returns false if something has
// changed meanwhile. A row without its marker gets a tag that says so. What a
// hand has made there is deleted, because it would keep the row from being
// deleted.
func (r *rows) fill(
	ctx context.Context, path string, row *rowlocker.Row, t tag, glance bool, below func() (node, error),
) (bool, error) {
	n, err := below()
	if err != nil || n.stat == nil || n.stat.Mzxid != row.Version {
		return false, err
	}
	own, old := r.ours(row, n.names, n.stat.Pzxid)
	if glance {
		row.Tickets = own
		return !old, nil
	}
	row.Tickets = nil
	marked := false
	var owners []string
	for _, name := range n.names {
		owner, ok := strings.CutPrefix(name, ticketPrefix)
		switch {
		case ok:
			owners = append(owners, owner)
		case name == t.markerName():
			marked = true
		default:
			_ = r.do(ctx, remove(path+"/"+name, anyVersion), zk.ErrNoNode)
		}
	}
	if !marked {
		t.state = unmarked
		row.Tag = t.String()
	}
	row.Tickets = make([]rowlocker.Ticket, len(owners))
	var gone atomic.Bool
	err = lockerkit.Each(len(owners), flights, func(i int) error {
		t, ok := r.known(row.Key, owners[i])
		if !ok {
			n, err := r.get(ctx, ticketPath(path, owners[i]), false)
			if err != nil || n.stat == nil {
				gone.Store(true)
				return err
			}
			t = rowlocker.Ticket{Name: owners[i], Version: n.stat.Czxid, Value: n.value}
			r.knows(row.Key, t, false)
		}
		row.Tickets[i] = t
		return nil
	})
	return !gone.Load(), err
}
