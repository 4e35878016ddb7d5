package etcdtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// The code of docs/stores.md and docs/migrating.md.

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

func deduct(context.Context, string) error { return nil }

//nolint:errcheck // as people write it
func withMutex(ctx context.Context, client *clientv3.Client, sku string) error {
	s, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	if err != nil {
		return err
	}
	defer s.Close()
	m := concurrency.NewMutex(s, "/lock/sku/"+sku)
	if err := m.Lock(ctx); err != nil {
		return err
	}
	defer m.Unlock(ctx) // not done if ctx has ended: nobody gets the lock while the session lives
	return deduct(ctx, sku)
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
		withMutex(t.Context(), etcdtest.Client(t, addr), "42"),
		g.Close(t.Context()),
	)
	if err != nil {
		t.Error(err)
	}
}
