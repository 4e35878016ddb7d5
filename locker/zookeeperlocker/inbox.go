package zookeeperlocker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// An inbox has slots, each with the last message about a row, or about a
// ticket, of some of the keys. The version of a slot tells whether one was
// missed.
const (
	rowSlots    = 12
	ticketSlots = 4
	slots       = rowSlots + ticketSlots
)

func rowSlot(key string) int    { return int(hash(key) / shards % rowSlots) }
func ticketSlot(key string) int { return rowSlots + int(hash(key)/shards%ticketSlots) }

func (s *settings) slot(instance string, n int) string {
	return fmt.Sprintf("%s/i/%s-%d", s.root, instance, n)
}

// inbox says who has made the inbox of this process, which ends with a session.
type inbox struct {
	session atomic.Int64  // that has made it; 0: there is none
	making  chan struct{} // holds one: who makes it
}

func (i *inbox) made(session int64) bool { return session != 0 && i.session.Load() == session }

// Beat makes the inbox, which is also the pulse, unless this session has it.
func (r *rows) Beat(ctx context.Context, instance string) error {
	return tryError(r.makeInbox(ctx, instance))
}

func (r *rows) makeInbox(ctx context.Context, instance string) error {
	if r.made(r.conn.SessionID()) {
		return nil
	}
	select {
	case r.making <- struct{}{}:
		defer func() { <-r.making }()
	case <-ctx.Done():
		return unsent(ctx.Err())
	}
	ops := make([]any, slots)
	for i := range ops {
		ops[i] = r.create(r.slot(instance, i), nil, zk.FlagEphemeral)
	}
	for range 2 * slots {
		session := r.conn.SessionID()
		if r.made(session) {
			return nil
		}
		res, err := r.multi(ctx, ops)
		switch {
		case err != nil:
			return err
		case res.refused == nil:
			r.session.Store(session)
			return nil
		case errors.Is(res.refused, zk.ErrNoNode):
			err = r.ensure(ctx, r.root+"/i")
		case errors.Is(res.refused, zk.ErrNodeExists): // of a session before, or of a request without an answer
			err = r.do(ctx, remove(r.slot(instance, res.at), anyVersion), zk.ErrNoNode)
		default:
			err = res.refused
		}
		if err != nil {
			return err
		}
	}
	return errChanging
}

// Dead returns the instances without an inbox.
func (r *rows) Dead(ctx context.Context, instances []string) (dead []string, err error) {
	for _, i := range instances {
		n, err := r.get(ctx, r.slot(i, 0), false)
		if err != nil {
			return nil, tryError(err)
		}
		if n.stat == nil {
			dead = append(dead, i)
		}
	}
	return dead, nil
}

// Listen watches the slots of the inbox until one cannot be read or is gone, or
// ctx ends.
func (r *rows) Listen(ctx context.Context, instance string, hear func(rowlocker.Row), awake func()) {
	if r.makeInbox(ctx, instance) != nil {
		return
	}
	defer r.leave(ctx, instance)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	first := make([]node, slots)
	err := lockerkit.Each(slots, flights, func(i int) (err error) {
		first[i], err = r.get(ctx, r.slot(instance, i), true)
		return err
	})
	if err != nil {
		return
	}
	awake()
	var all sync.WaitGroup
	for i, n := range first {
		s := slot{rows: r, path: r.slot(instance, i), tickets: i >= rowSlots, hear: hear, awake: awake}
		all.Go(func() {
			defer stop()
			s.listen(ctx, n)
		})
	}
	all.Wait()
}

// leaveLimit bounds the time that leave takes.
const leaveLimit = time.Second

// leave deletes the inbox if ctx has ended.
func (r *rows) leave(ctx context.Context, instance string) {
	if ctx.Err() == nil || !r.made(r.conn.SessionID()) || r.conn.State() != zk.StateHasSession {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
	defer cancel()
	ops := make([]any, slots)
	for i := range ops {
		ops[i] = remove(r.slot(instance, i), anyVersion)
	}
	_, _ = r.multi(ctx, ops) // else they go with the session
}

// slot is one of an inbox that is listened to.
type slot struct {
	rows    *rows
	path    string
	tickets bool // not rows
	hear    func(rowlocker.Row)
	awake   func()

	version int32  // of the last message
	key     string // that it was about
}

// listen returns when the slot, of which n was read, cannot be read or is gone,
// or ctx ends.
func (s *slot) listen(ctx context.Context, n node) {
	if n.stat != nil {
		s.version = max(0, n.stat.Version-1) // those before need no message
	}
	for made := n.stat; n.stat != nil && n.stat.Czxid == made.Czxid; {
		if n.stat.Version > s.version {
			s.heard(n)
		}
		select {
		case <-n.changed:
		case <-ctx.Done():
			return
		}
		var err error
		if n, err = s.rows.get(ctx, s.path, true); err != nil {
			return
		}
	}
	s.rows.session.Store(0)
}

// heard passes on a message. If one about a ticket was missed, the row is read.
// If that may have been about another row, everybody looks.
func (s *slot) heard(n node) {
	m, ok := parseMessage(n.value)
	missed, same := n.stat.Version > s.version+1, s.key == m.key
	s.version, s.key = n.stat.Version, m.key
	row := rowlocker.Row{Key: m.key, Version: n.stat.Mzxid}
	switch {
	case !ok:
		s.awake()
		return
	case s.tickets && missed && same:
	case s.tickets:
		t := rowlocker.Ticket{Name: m.tag, Version: n.stat.Mzxid, Value: m.value}
		s.rows.knows(m.key, t, false)
		row = rowlocker.Row{Key: m.key, Tickets: []rowlocker.Ticket{t}}
	case len(m.value) > 0:
		s.rows.merged(m.key, m.value, row.Version, false)
		row.Value, row.Tag = m.value, m.tag
	}
	s.hear(row)
	if missed && (!same || !s.tickets) {
		s.awake()
	}
}
