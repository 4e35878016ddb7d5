package redisconn

import (
	"context"
	"errors"
	"sync"
)

// ErrBusy means that too many requests have a connection alone.
var ErrBusy = errors.New("too many others wait for replicas: see that those are up and keep pace, or " +
	"change WithReplicas")

// ErrUnknownClient means that WithClient's client is of an unknown type.
var ErrUnknownClient = errors.New("the client is of a type whose connections are not known")

// OneConn returns a way over one connection to the primary of name, until done.
// WAIT is about the writes of its own connection. OneConn waits while too many
// connections are in use, so that the pool has others left for renewals. It
// returns ErrBusy if ctx ends first, and ErrUnknownClient.
func (c *Conns) OneConn(ctx context.Context, name string) (send Way, done func(), err error) {
	client, err := c.nodeClient(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if client == nil {
		return nil, nil, ErrUnknownClient
	}
	place := c.places.of(client.Options().Addr)
	select {
	case place <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ErrBusy
	}
	conn := client.Conn()
	return func(ctx context.Context, cmds ...Command) []Command {
		c.reloadOnMove(ctx, exchange(ctx, conn, cmds)) // each command has its own error
		return cmds
	}, func() { _ = conn.Close(); <-place }, nil // back to the pool
}

// maxAlone is the max number of connections to a server that are used alone at
// a time.
const maxAlone = poolSize * 3 / 4

// places are the places of those who use a connection alone, for each server.
type places struct {
	mu sync.Mutex // guards by
	by map[string]chan struct{}
}

// of returns the places at a server. A send takes a place and a receive frees
// it.
func (p *places) of(server string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	place := p.by[server]
	if place == nil {
		place = make(chan struct{}, maxAlone)
		if p.by == nil {
			p.by = make(map[string]chan struct{})
		}
		p.by[server] = place
	}
	return place
}
