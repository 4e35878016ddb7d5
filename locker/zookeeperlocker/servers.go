package zookeeperlocker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// servers are the servers of ZooKeeper, by a connection that changes among
// them.
type servers struct {
	settings
	conn *zk.Conn
	dial func() (conn *zk.Conn, end func(), err error) // makes conn and end; nil: conn is the caller's
	end  func()                                        // ends conn
}

// Open checks the settings, and makes the connection if the caller has made
// none.
func (s *servers) Open() (err error) {
	if err := s.check(); err != nil {
		return err
	}
	if s.dial != nil {
		s.conn, s.end, err = s.dial()
	}
	if err == nil && s.conn == nil {
		err = lockerkit.Invalid(store, "the connection is nil")
	}
	return err
}

// Close closes the connection that dial has made.
func (s *servers) Close() {
	if s.end != nil {
		s.end()
	}
}

// flights is how many requests for one call are under way at a time.
const flights = 16

// sessionPause is the time between two looks whether there is a session.
const sessionPause = 5 * time.Millisecond

// call runs a request of the client, which knows no ctx. Without a session it
// sends nothing, because the client would keep the request and send it long
// after its caller has given up.
func call[T any](ctx context.Context, s *servers, send func() (T, error)) (T, error) {
	var none T
	if err := s.awaitSession(ctx); err != nil {
		return none, err
	}
	type answer struct {
		v   T
		err error
	}
	got := make(chan answer, 1)
	go func() {
		v, err := send()
		got <- answer{v, err}
	}()
	select {
	case a := <-got:
		return a.v, a.err
	case <-ctx.Done():
		return none, fmt.Errorf("no answer from %s in time: %w", s.conn.Server(), ctx.Err())
	}
}

// sessionShare is the part of its time in which the caller of awaitSession
// learns that there is no session.
const sessionShare = 16

// awaitSession waits until there is a session. Its error names the server that
// the client tries now, because the address may be wrong.
//
// After a wait it pauses, so that the client first sets its watches again. An
// answer that came before would make it miss their events.
func (s *servers) awaitSession(ctx context.Context) error {
	until, bounded := ctx.Deadline()
	until = until.Add(-time.Until(until) / sessionShare)
	waited := false
	for ctx.Err() != nil || s.conn.State() != zk.StateHasSession {
		if err := ctx.Err(); err != nil || bounded && time.Now().After(until) {
			return fmt.Errorf("%w with %s: %w", errUnsent, s.conn.Server(), cmp.Or(err, context.DeadlineExceeded))
		}
		lockerkit.Pause(sessionPause, ctx.Done())
		waited = true
	}
	if waited {
		lockerkit.Pause(sessionPause, ctx.Done())
	}
	return nil
}

// result is that of a transaction. If one of its operations was refused,
// nothing was done.
type result struct {
	zxid    int64 // of the transaction, if it writes data
	refused error // nil: all was done
	at      int   // the operation that was refused
}

// multi sends all of the operations or none.
func (s *servers) multi(ctx context.Context, ops []any) (r result, err error) {
	answers, err := call(ctx, s, func() ([]zk.MultiResponse, error) { return s.conn.Multi(ops...) })
	for i, a := range answers {
		if a.Stat != nil {
			r.zxid = a.Stat.Mzxid
		}
		if a.Error != nil && r.refused == nil {
			r.refused, r.at = a.Error, i
		}
	}
	if r.refused != nil {
		err = nil // it says the same
	}
	return r, err
}

// do sends one operation. That it is refused as expected is no error.
func (s *servers) do(ctx context.Context, op any, expected error) error {
	r, err := s.multi(ctx, []any{op})
	if err == nil && errors.Is(r.refused, expected) {
		return nil
	}
	return cmp.Or(err, r.refused)
}

// make makes a node unless it is there.
func (s *servers) make(ctx context.Context, path string, data []byte) error {
	return s.do(ctx, s.create(path, data, zk.FlagPersistent), zk.ErrNodeExists)
}

// node is what was read of a node. stat is nil if there is none.
type node struct {
	value   []byte
	names   []string // of its children
	stat    *zk.Stat
	changed <-chan zk.Event // if a watch was asked for
}

// found returns an empty node in place of the error that there is none.
func found(n node, err error) (node, error) {
	if errors.Is(err, zk.ErrNoNode) {
		return node{}, nil
	}
	return n, err
}

func (s *servers) get(ctx context.Context, path string, watch bool) (node, error) {
	return found(call(ctx, s, func() (n node, err error) {
		if watch {
			n.value, n.stat, n.changed, err = s.conn.GetW(path)
		} else {
			n.value, n.stat, err = s.conn.Get(path)
		}
		return n, err
	}))
}

// sync returns when the server has what the leader had.
func (s *servers) sync(ctx context.Context, path string) error {
	_, err := call(ctx, s, func() (string, error) { return s.conn.Sync(path) })
	return err
}

// children returns what stands below a node.
func (s *servers) children(ctx context.Context, path string) (node, error) {
	return found(call(ctx, s, func() (n node, err error) {
		n.names, n.stat, err = s.conn.Children(path)
		return n, err
	}))
}

// ensure makes a node and those above it.
func (s *servers) ensure(ctx context.Context, path string) error {
	for i := range path + "/" {
		if i > 0 && (i == len(path) || path[i] == '/') {
			if err := s.make(ctx, path[:i], nil); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	errUnsent   = fmt.Errorf("%w: there is no session", locker.ErrUnsent)
	errChanging = fmt.Errorf("%w: the key changed hands too often meanwhile", locker.ErrUnsent)
	errLong     = errors.New("it is longer than the 1 MB that ZooKeeper takes in a request")
)

// lacksRights reports whether the user may not do what was asked.
func lacksRights(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL)
}

// tryError is ErrUnavailable, or a refusal if a new try cannot help.
func tryError(err error) error {
	switch {
	case err == nil:
		return nil
	case lacksRights(err):
		return fmt.Errorf("%s: %w (log in by AddAuth, and see the rights in the documentation of package %[1]s)",
			store, err)
	case errors.Is(err, errLong):
		return fmt.Errorf("%s: %w", store, err)
	}
	return fmt.Errorf("%w: zookeeperlocker: %w", locker.ErrUnavailable, err)
}

// Unanswered is the error of a call that was given up.
func (s *servers) Unanswered(_ time.Time, err error) error {
	return tryError(fmt.Errorf("no answer from %s in time: %w", s.conn.Server(), err))
}
