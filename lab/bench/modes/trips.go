package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// eachWay is how long bytes take to a server, and back.
const eachWay = 20 * time.Millisecond

// far is a connection to a server that is far away.
type far struct{ client, server net.Conn }

func (f far) Ends() (client, server net.Conn) { return f.client, f.server }
func (f far) Up(b []byte) bool                { return late(f.server, b) }
func (f far) Down(b []byte) bool              { return late(f.client, b) }

func late(to net.Conn, b []byte) bool {
	time.Sleep(eachWay)
	_, err := to.Write(b)
	return err == nil
}

// trips measures a DoAll of free keys over far connections.
func (b *bench) trips() error {
	single, err := b.lab.Start()
	if err != nil {
		return err
	}
	cluster, err := b.lab.StartCluster(false)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\nDoAll of free keys with an empty function, %v each way\n\n| servers | keys | time, ms | "+
		"round trips |\n|---|---|---|---|\n", eachWay)
	if err := b.tripsTo("one", false, single.Addr); err != nil {
		return err
	}
	return b.tripsTo("a Cluster of three", true, cluster.Addrs()...)
}

func (b *bench) tripsTo(name string, cluster bool, addrs ...string) error {
	pipes := map[string]string{}
	for _, addr := range addrs {
		p, err := faultpipe.New(b.ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		p.Serve(func(client net.Conn) (faultpipe.Link, error) {
			server, err := new(net.Dialer).DialContext(b.ctx, "tcp", addr)
			return far{client, server}, err
		})
		pipes[addr] = p.Addr
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, pipes[addr])
	}
	var rdb redis.UniversalClient = redis.NewClient(&redis.Options{Addr: addrs[0], Dialer: dial})
	if cluster {
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Dialer: dial})
	}
	defer func() { _ = rdb.Close() }()
	g, err := guard.New(redislocker.New(rdb), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer func() { _ = g.Close(context.WithoutCancel(b.ctx)) }()
	for _, n := range []int{1, 3, 16, 64} {
		const warm, seen = 3, 7
		var times []time.Duration
		for i := range warm + seen {
			var keys []string
			for k := range n {
				keys = append(keys, fmt.Sprintf("%d:%d:%d", n, i, k))
			}
			start := time.Now()
			if err := g.DoAll(b.ctx, keys, func(context.Context) error { return nil }); err != nil {
				return err
			}
			if i >= warm {
				times = append(times, time.Since(start))
			}
		}
		median := quantile(times, 0.5)
		fmt.Fprintf(b.out, "| %s | %d | %.1f | %.2f |\n", name, n, median,
			median/float64((2*eachWay).Milliseconds()))
	}
	return nil
}
