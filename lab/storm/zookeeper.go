//go:build unix

package main

import (
	"context"
	"os"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// session is the timeout of sessions. Some cuts are longer.
const session = 3 * time.Second

// startZooKeeper starts three servers.
func startZooKeeper(ctx context.Context, p *Place) error {
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return err
	}
	p.ending(func() { _ = os.RemoveAll(dir) })
	servers, err := zktest.New(ctx, 3, dir, zktest.Settings{})
	if err != nil {
		return err
	}
	address := func(s *zktest.Server) string { return s.Addr }
	leads := func(ctx context.Context, s *zktest.Server) bool { return s.Leads(ctx) }
	if err := p.at(ctx, "zk://"+servers[0].Addr); err != nil {
		return err
	}
	return ensemble(ctx, p, servers, address, leads)
}

func openZooKeeper(servers []string) (locker.Locker, func(), error) {
	conn, err := zktest.Dial(session, servers...)
	if err != nil {
		return nil, nil, err
	}
	return zookeeperlocker.New(conn), conn.Close, nil
}
