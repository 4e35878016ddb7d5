package zookeeperlocker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// sessionPause is the time between two looks whether there is a session.
const sessionPause = 5 * time.Millisecond

// call runs a request of the client, which knows no ctx. Without a session it
// sends nothing, because the client would keep the request and send it long
// after its caller has given up.
//
// The goroutine of a request that is not answered ends when the client closes
// the connection, which it does after two thirds of the session's timeout. It
// touches nothing of the locker.
func call[T any](ctx context.Context, l *Locker, send func() (T, error)) (T, error) {
	var none T
	if err := l.session(ctx); err != nil {
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
		return none, fmt.Errorf("no answer from %s in time: %w", l.conn.Server(), ctx.Err())
	}
}

// session waits until there is a session. Its error names the server that the
// client tries now, because the address may be wrong.
func (l *Locker) session(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w with %s: %w", errUnsent, l.conn.Server(), err)
		}
		if l.conn.State() == zk.StateHasSession {
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
func (l *Locker) multi(ctx context.Context, ops ...any) (r result, err error) {
	answers, err := call(ctx, l, func() ([]zk.MultiResponse, error) { return l.conn.Multi(ops...) })
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

func (l *Locker) get(ctx context.Context, path string) (node, error) {
	n, err := call(ctx, l, func() (node, error) {
		value, stat, err := l.conn.Get(path)
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
func (l *Locker) getAll(ctx context.Context, above string, names []string, below string) []node {
	nodes := make([]node, len(names))
	turns := make(chan struct{}, getFlights)
	var all sync.WaitGroup
	for i, name := range names {
		turns <- struct{}{} // a request ends with ctx
		all.Go(func() {
			defer func() { <-turns }()
			nodes[i], _ = l.get(ctx, above+"/"+name+below)
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

func (l *Locker) children(ctx context.Context, path string) (list, error) {
	c, err := call(ctx, l, func() (list, error) {
		names, stat, err := l.conn.Children(path)
		return list{names, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return list{}, nil
	}
	return c, err
}

func (l *Locker) stat(ctx context.Context, path string) (*zk.Stat, error) {
	return call(ctx, l, func() (*zk.Stat, error) {
		ok, stat, err := l.conn.Exists(path)
		if !ok {
			return nil, err
		}
		return stat, err
	})
}

func (l *Locker) delete(ctx context.Context, path string) error {
	_, err := call(ctx, l, func() (struct{}, error) { return struct{}{}, l.conn.Delete(path, anyVersion) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// watched is a node that was asked for with a watch.
type watched struct {
	stat    *zk.Stat // nil: there is no such node
	changed <-chan zk.Event
}

func (l *Locker) watch(ctx context.Context, path string) (watched, error) {
	return call(ctx, l, func() (watched, error) {
		ok, stat, changed, err := l.conn.ExistsW(path)
		if !ok {
			stat = nil
		}
		return watched{stat, changed}, err
	})
}

// watchPause is the pause before a watch that could not be set is tried again.
const watchPause = 50 * time.Millisecond

// watchSurely is watch, tried until ctx ends.
func (l *Locker) watchSurely(ctx context.Context, path string) (watched, error) {
	for {
		w, err := l.watch(ctx, path)
		if err == nil || lacksRights(err) {
			return w, err
		}
		if !lockerkit.Pause(watchPause, ctx.Done()) {
			return w, ctx.Err()
		}
	}
}

// ensure makes the directory of a key, and what is above it.
func (l *Locker) ensure(ctx context.Context, dir string) error {
	err := l.make(ctx, dir, zk.FlagContainer)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	above := dir[:strings.LastIndex(dir, "/")]
	for i := range above {
		if i > 0 && above[i] == '/' {
			if err := l.make(ctx, above[:i], zk.FlagPersistent); err != nil {
				return err
			}
		}
	}
	for _, path := range []string{above, l.fenceNode(), l.janitorNode()} {
		if err := l.make(ctx, path, zk.FlagPersistent); err != nil {
			return err
		}
	}
	return l.make(ctx, dir, zk.FlagContainer)
}

// make makes a node unless it is there.
func (l *Locker) make(ctx context.Context, path string, flag int32) error {
	_, err := call(ctx, l, func() (string, error) {
		if flag == zk.FlagContainer {
			return l.conn.CreateContainer(path, nil, flag, l.acl)
		}
		return l.conn.Create(path, nil, flag, l.acl)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
