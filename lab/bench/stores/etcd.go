package main

import (
	"context"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func startEtcd(ctx context.Context, p *place) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	p.ending(func() { _ = os.RemoveAll(dir) })
	members, err := etcdtest.NewCluster(ctx, 1, dir, etcdtest.Settings{Sync: true})
	for _, m := range members {
		p.ending(m.Kill)
	}
	if err != nil {
		return err
	}
	addr := members[0].Addr
	p.open = func(int) (locker.Locker, func(), error) {
		client, err := clientv3.New(etcdtest.Config(addr))
		if err != nil {
			return nil, nil, err
		}
		return etcdlocker.New(client), func() { _ = client.Close() }, nil
	}
	p.rival = &rival{"concurrency.Mutex", func(c contest) (process, error) { return useMutex(addr, c) }}
	return nil
}

// useMutex gives each caller of a hot key a session, which is its fast form,
// and the callers of own keys one for all.
func useMutex(addr string, c contest) (process, error) {
	client, err := clientv3.New(etcdtest.Config(addr))
	if err != nil {
		return process{}, err
	}
	n := c.callers
	if c.own {
		n = 1
	}
	sessions := make(chan *concurrency.Session, n)
	for range n {
		s, err := concurrency.NewSession(client, concurrency.WithTTL(10))
		if err != nil {
			_ = client.Close()
			return process{}, err
		}
		sessions <- s
	}
	end := func() {
		for range n {
			_ = (<-sessions).Close()
		}
		_ = client.Close()
	}
	return process{func(ctx context.Context, key string, f func(limit int)) error {
		s := <-sessions
		if c.own {
			sessions <- s
		} else {
			defer func() { sessions <- s }()
		}
		m := concurrency.NewMutex(s, "mutex/"+key)
		if err := m.Lock(ctx); err != nil {
			return err
		}
		f(1)
		return m.Unlock(context.WithoutCancel(ctx))
	}, end}, nil
}
