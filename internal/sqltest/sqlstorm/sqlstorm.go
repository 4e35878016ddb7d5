//go:build unix

// Package sqlstorm is what [storm] rages in if the store is a SQL server.
package sqlstorm

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/storm"
)

// Place is a server, and the way to it.
type Place struct {
	Server *sqltest.Server
	Pooler *sqltest.Server // between the processes and the server; may be nil

	// Addresses are how a process gets to the server, through the pipe that is
	// given its host and port. A process gets all of them.
	Addresses func(pipe string) []string

	// Left is that of [storm.Place].
	Left func(ctx context.Context) ([]string, error)
}

// network is a pipe between the processes and the server, or the pooler.
type network struct {
	*faultpipe.Pipe

	still atomic.Bool // bytes wait in the pipe
}

// Run is [storm.Run] for a Place.
func Run(ctx context.Context, s storm.Settings, p Place, log io.Writer) (storm.Report, error) {
	pipe, err := faultpipe.New(ctx)
	if err != nil {
		return storm.Report{}, err
	}
	defer pipe.Close()
	n := &network{Pipe: pipe}
	defer n.still.Store(false)
	to := p.Server
	if p.Pooler != nil {
		to = p.Pooler
	}
	n.Serve(func(client net.Conn) (faultpipe.Link, error) {
		server, err := net.Dial("tcp", to.Addr())
		if err != nil {
			return nil, err
		}
		return &link{n, client, server}, nil
	})
	return storm.Run(ctx, s, storm.Place{Addresses: p.Addresses(n.Addr), Faults: p.faults(n), Left: p.Left}, log)
}

func (p Place) faults(n *network) []storm.Fault {
	all := []storm.Fault{
		{Name: "server killed", Strike: func(length time.Duration) error {
			p.Server.Kill()
			time.Sleep(length)
			return p.Server.Restart()
		}},
		{Name: "server stopped", Strike: func(length time.Duration) error {
			p.Server.Pause()
			time.Sleep(length)
			p.Server.Resume()
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
	if p.Pooler == nil {
		return all
	}
	return append(all, storm.Fault{Name: "pooler killed", Strike: func(length time.Duration) error {
		p.Pooler.Kill()
		time.Sleep(length / 2)
		return p.Pooler.Restart()
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
