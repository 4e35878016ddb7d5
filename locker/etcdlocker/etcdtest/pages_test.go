package etcdtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/etcdlocker"
)

// The code of docs/stores.md.

func openEtcd(addrs ...string) (*guard.Guard, *etcdlocker.Locker, *clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            addrs,
		DialKeepAliveTime:    5 * time.Second, // else a connection that was cut is noticed after minutes
		DialKeepAliveTimeout: time.Second,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	leases := etcdlocker.New(client)
	g, err := guard.New(leases, guard.WithTTL(5*time.Second))
	return g, leases, client, err
}

func setConfig(ctx context.Context, g *guard.Guard, leases *etcdlocker.Locker, client *clientv3.Client) error {
	return g.Do(ctx, "config", func(ctx context.Context) error {
		r, err := client.Txn(ctx).If(leases.Held(ctx)...).Then(clientv3.OpPut("config/limit", "10")).Commit()
		if err == nil && !r.Succeeded {
			return guard.ErrLeaseLost // and nothing was written
		}
		return err
	})
}

func TestTheCodeOfThePagesRuns(t *testing.T) {
	t.Parallel()
	addr, _ := store(t)
	g, leases, client, err := openEtcd(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = errors.Join(
		setConfig(t.Context(), g, leases, client),
		g.Close(t.Context()),
	)
	if err != nil {
		t.Error(err)
	}
}
