package zookeeperlocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	dial func() (*zk.Conn, error) // makes conn, of which the locker is then the owner; nil: it is the caller's
}

// open checks the settings, and makes the connection if the caller has made
// none.
func (s *servers) open() (err error) {
	if err := s.check(); err != nil {
		return err
	}
	if s.dial != nil {
		s.conn, err = s.dial()
	}
	if err == nil && s.conn == nil {
		err = lockerkit.Invalid(store, "the connection is nil")
	}
	return err
}

// close closes the connection that dial has made.
func (s *servers) close() {
	if s.dial != nil {
		s.conn.Close()
	}
}

// sessionPause is the time between two looks whether there is a session.
const sessionPause = 5 * time.Millisecond

// call runs a request of the client, which knows no ctx. Without a session it
// sends nothing, because the client would keep the request and send it long
// after its caller has given up.
//
// The goroutine of a request that is not answered ends when the client closes
// the connection, which it does after two thirds of the session's timeout. The
// goroutine touches nothing of the locker.
func call[T any](ctx context.Context, s *servers, send func() (T, error)) (T, error) {
	var none T
	if err := s.session(ctx); err != nil {
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

// session waits until there is a session. Its error names the server that the
// client tries now, because the address may be wrong.
func (s *servers) session(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w with %s: %w", errUnsent, s.conn.Server(), err)
		}
		if s.conn.State() == zk.StateHasSession {
			return nil
		}
		lockerkit.Pause(sessionPause, ctx.Done())
	}
}

// result is that of a transaction. If one of its operations was refused,
// nothing was done.
type result struct {
	stats   []*zk.Stat // of the operations that write data
	refused error      // nil: all was done
	at      int        // the operation that was refused
}

// multi sends all of the operations or none.
func (s *servers) multi(ctx context.Context, ops ...any) (r result, err error) {
	answers, err := call(ctx, s, func() ([]zk.MultiResponse, error) { return s.conn.Multi(ops...) })
	if err != nil && !refused(err) {
		return r, err
	}
	for i, a := range answers {
		r.stats = append(r.stats, a.Stat)
		if a.Error != nil && r.refused == nil {
			r.refused, r.at = a.Error, i
		}
	}
	return r, nil
}

// node is a node's value. stat is nil if there is none.
type node struct {
	value []byte
	stat  *zk.Stat
}

func (s *servers) get(ctx context.Context, path string) (node, error) {
	n, err := call(ctx, s, func() (node, error) {
		value, stat, err := s.conn.Get(path)
		return node{value, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return node{}, nil
	}
	return n, err
}

// getFlights is the number of requests of one getAll at a time.
const getFlights = 16

// getAll gets above/name+below for each of the names. A node that could not be
// read counts as none.
func (s *servers) getAll(ctx context.Context, above string, names []string, below string) []node {
	nodes := make([]node, len(names))
	turns := make(chan struct{}, getFlights)
	var all sync.WaitGroup
	for i, name := range names {
		turns <- struct{}{} // a request ends with ctx
		all.Go(func() {
			defer func() { <-turns }()
			nodes[i], _ = s.get(ctx, above+"/"+name+below)
		})
	}
	all.Wait()
	return nodes
}

// list is a node's children. stat is nil if there is no such node.
type list struct {
	names []string
	stat  *zk.Stat
}

func (s *servers) children(ctx context.Context, path string) (list, error) {
	c, err := call(ctx, s, func() (list, error) {
		names, stat, err := s.conn.Children(path)
		return list{names, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return list{}, nil
	}
	return c, err
}

func (s *servers) stat(ctx context.Context, path string) (*zk.Stat, error) {
	return call(ctx, s, func() (*zk.Stat, error) {
		ok, stat, err := s.conn.Exists(path)
		if !ok {
			return nil, err
		}
		return stat, err
	})
}

func (s *servers) delete(ctx context.Context, path string) error {
	_, err := call(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(path, anyVersion) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// watched is a node that was asked for with a watch.
type watched struct {
	stat    *zk.Stat        // nil: there is no such node
	changed <-chan zk.Event // nil then, because nobody would end the watch
}

func (s *servers) watch(ctx context.Context, path string) (watched, error) {
	return call(ctx, s, func() (watched, error) {
		_, stat, changed, err := s.conn.GetW(path)
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return watched{stat, changed}, err
	})
}

// watchPause is the pause before a watch that could not be set is tried again.
const watchPause = 50 * time.Millisecond

// watchSurely is watch, tried until ctx ends.
func (s *servers) watchSurely(ctx context.Context, path string) (watched, error) {
	for {
		w, err := s.watch(ctx, path)
		if err == nil || lacksRights(err) {
			return w, err
		}
		if !lockerkit.Pause(watchPause, ctx.Done()) {
			return w, ctx.Err()
		}
	}
}

// ensure makes the directory of a key, and what is above it.
func (s *servers) ensure(ctx context.Context, dir string) error {
	err := s.make(ctx, dir, zk.FlagContainer)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	above := dir[:strings.LastIndex(dir, "/")]
	for i := range above {
		if i > 0 && above[i] == '/' {
			if err := s.make(ctx, above[:i], zk.FlagPersistent); err != nil {
				return err
			}
		}
	}
	for _, path := range []string{above, s.fenceNode(), s.janitorNode()} {
		if err := s.make(ctx, path, zk.FlagPersistent); err != nil {
			return err
		}
	}
	return s.make(ctx, dir, zk.FlagContainer)
}

// make makes a node unless it is there.
func (s *servers) make(ctx context.Context, path string, flag int32) error {
	_, err := call(ctx, s, func() (string, error) {
		if flag == zk.FlagContainer {
			return s.conn.CreateContainer(path, nil, flag, s.acl)
		}
		return s.conn.Create(path, nil, flag, s.acl)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// readQueue finds the queue, with the values of its first, and the badges.
func (s *servers) readQueue(ctx context.Context, dir string) (v view, err error) {
	for range maxTries {
		c, err := s.children(ctx, dir)
		if err != nil {
			return v, err
		}
		if c.stat == nil {
			return view{known: true}, nil
		}
		v = view{
			known: true, version: c.stat.Version, zxid: c.stat.Pzxid,
			held: slices.Contains(c.names, ownerNode[1:]), badges: badgesIn(c.names), queue: queueIn(c.names),
		}
		if len(v.queue) == 0 {
			return v, nil
		}
		if err := s.fill(ctx, dir, v.queue); err != nil {
			return v, err
		}
		if v.queue[0].Value != nil {
			return v, nil
		}
	}
	return v, errChanging
}

// fill gets the values of the first entries. An entry that is gone has none.
func (s *servers) fill(ctx context.Context, dir string, queue []queued) error {
	var names []string
	for _, q := range queue[:min(len(queue), shownMax)] {
		names = append(names, q.Name)
	}
	for i, n := range s.getAll(ctx, dir, names, "") {
		queue[i].Value = n.value
	}
	return ctx.Err()
}

var (
	errNotOwner = fmt.Errorf("%w: the key is not ours any more", locker.ErrLeaseLost)
	errChanging = errors.New("the key changed hands too often meanwhile")
	errUnsent   = fmt.Errorf("%w: there is no session", locker.ErrUnsent)
	errStrange  = errors.New("an entry of the queue is not ours")
	errBadges   = errors.New("the key was taken, but there is no session to remove the badges of others")
)

// refused reports whether err says that a comparison failed and nothing was
// changed.
func refused(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion)
}

// lacksRights reports whether the user may not do what was asked.
func lacksRights(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL)
}

// tryError is the error that Acquire returns for err: ErrUnavailable, or a
// refusal of ZooKeeper if a new try cannot help.
func tryError(err error) error {
	if lacksRights(err) {
		return fmt.Errorf("zookeeperlocker: %w", withAdvice(err))
	}
	return unclear(err)
}

// unclear is the error of a call whose outcome is not known. For a holder, a
// refusal leaves as much in doubt as silence does.
func unclear(err error) error {
	return fmt.Errorf("%w: zookeeperlocker: %w", locker.ErrUnavailable, withAdvice(err))
}

// withAdvice adds what to do about err.
func withAdvice(err error) error {
	if lacksRights(err) {
		return fmt.Errorf(
			"%w (log in by AddAuth, and see the rights in the documentation of package zookeeperlocker)", err)
	}
	return err
}
