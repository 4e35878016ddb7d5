//go:build unix

package main

import (
	"context"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// startEtcd starts three members.
func startEtcd(ctx context.Context, p *Place) error {
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return err
	}
	p.ending(func() { _ = os.RemoveAll(dir) })
	members, err := etcdtest.NewCluster(ctx, 3, dir, etcdtest.Settings{})
	if err != nil {
		return err
	}
	p.Left = func(ctx context.Context) ([]string, error) { return inEtcd(ctx, members[0].Addr) }
	return ensemble(ctx, p, members, func(m *etcdtest.Member) string { return m.Addr }, leadsEtcd)
}

// openEtcd has each process prefer another member.
func openEtcd(members []string) (_ locker.Locker, end func(), err error) {
	var clients []*clientv3.Client
	end = func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	for _, addr := range members {
		c, err := clientv3.New(etcdtest.Config(addr))
		if err != nil {
			return nil, end, err
		}
		clients = append(clients, c)
	}
	first := os.Getpid() % len(clients)
	others := append(clients[:first:first], clients[first+1:]...)
	return etcdlocker.New(clients[first], etcdlocker.WithMembers(others...)), end, nil
}

func leadsEtcd(ctx context.Context, m *etcdtest.Member) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := clientv3.New(etcdtest.Config(m.Addr))
	if err != nil {
		return false
	}
	defer c.Close()
	s, err := c.Status(ctx, m.Addr)
	return err == nil && s.Leader == s.Header.MemberId
}

// inEtcd returns all keys in etcd. Results leave it, too.
func inEtcd(ctx context.Context, member string) (left []string, err error) {
	c, err := clientv3.New(etcdtest.Config(member))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r, err := c.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	for _, kv := range r.Kvs {
		left = append(left, string(kv.Key))
	}
	return left, nil
}
