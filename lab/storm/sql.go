//go:build unix

package main

import (
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/sqltest"
)

// network is a pipe between the processes and the server, or the pooler.
type network struct {
	*faultpipe.Pipe

	still atomic.Bool // bytes wait in the pipe
}

// behind puts a pipe between the processes and the server, or its pooler, which
// may be nil. address is how a process gets through the pipe.
func (p *Place) behind(ctx context.Context, server, pooler *sqltest.Server, address func(pipe string) string) error {
	pipe, err := faultpipe.New(ctx)
	if err != nil {
		return err
	}
	n := &network{Pipe: pipe}
	p.ending(func() {
		n.still.Store(false)
		pipe.Close()
	})
	to := server
	if pooler != nil {
		to = pooler
	}
	n.Serve(func(client net.Conn) (faultpipe.Link, error) {
		server, err := net.Dial("tcp", to.Addr())
		if err != nil {
			return nil, err
		}
		return &link{n, client, server}, nil
	})
	p.Addresses[0], p.Faults = address(n.Addr), n.faults(server, pooler)
	return nil
}

func (n *network) faults(server, pooler *sqltest.Server) []Fault {
	all := []Fault{
		{Name: "server killed", Strike: func(length time.Duration) error {
			server.Kill()
			time.Sleep(length)
			return server.Restart()
		}},
		{Name: "server stopped", Strike: func(length time.Duration) error {
			server.Pause()
			time.Sleep(length)
			server.Resume()
			return nil
		}},
		{Name: "connections cut", Strike: func(time.Duration) error {
			n.Cut(func(faultpipe.Link) bool { return rand.N(2) == 0 })
			return nil
		}},
		{Name: "all cut off", Strike: func(length time.Duration) error {
			n.still.Store(true)
			time.Sleep(length)
			n.still.Store(false)
			n.Cut(nil)
			return nil
		}},
	}
	if pooler == nil {
		return all
	}
	return append(all, Fault{Name: "pooler killed", Strike: func(length time.Duration) error {
		pooler.Kill()
		time.Sleep(length / 2)
		return pooler.Restart()
	}})
}

// link keeps bytes back while the network is still. Then the connection is cut.
type link struct {
	network        *network
	client, server net.Conn
}

func (k *link) Ends() (client, server net.Conn) { return k.client, k.server }
func (k *link) Up(b []byte) bool                { return k.pass(k.server, b) }
func (k *link) Down(b []byte) bool              { return k.pass(k.client, b) }

func (k *link) pass(to net.Conn, b []byte) bool {
	for k.network.still.Load() {
		select {
		case <-k.network.Closed():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	_, err := to.Write(b)
	return err == nil
}
