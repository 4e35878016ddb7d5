package redisconn

import (
	"context"
	"errors"
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
func (c *Conns) OneConn(ctx context.Context, name string) (send SendFunc, done func(), err error) {
	client, err := c.nodeClient(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if client == nil {
		return nil, nil, ErrUnknownClient
	}
	place := c.alone.of(client.Options().Addr, func() chan struct{} { return make(chan struct{}, maxAlone) })
	select {
	case place <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ErrBusy
	}
	conn := client.Conn()
	return func(ctx context.Context, cmds ...Command) []Command {
		c.reload(ctx, exchange(ctx, conn, cmds)) // each command has its own error
		return cmds
	}, func() { _ = conn.Close(); <-place }, nil // back to the pool
}

// maxAlone is the max number of connections to a server that are used alone at
// a time. A send takes the place of one, and a receive frees it.
const maxAlone = poolSize * 3 / 4
