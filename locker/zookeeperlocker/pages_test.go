package zookeeperlocker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// The code of docs/stores.md and docs/migrating.md.

func openZooKeeper(servers ...string) (*guard.Guard, *zk.Conn, error) {
	conn, _, err := zk.Connect(servers, 10*time.Second)
	if err != nil {
		return nil, nil, err
	}
	g, err := guard.New(zookeeperlocker.New(conn), guard.WithTTL(5*time.Second))
	return g, conn, err
}

func deduct(context.Context, string) error { return nil }

//nolint:errcheck // as people write it
func withLock(ctx context.Context, conn *zk.Conn, sku string) error {
	l := zk.NewLock(conn, "/lock/sku/"+sku, zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil { // waits for ever, whatever ctx does
		return err
	}
	defer l.Unlock()
	return deduct(ctx, sku) // not told if the session ends meanwhile
}

func TestTheCodeOfThePagesRuns(t *testing.T) {
	t.Parallel()
	addr, _ := store(t)
	g, conn, err := openZooKeeper(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = errors.Join(
		g.Do(t.Context(), "sku:42", nothing),
		withLock(t.Context(), zktest.Connect(t, session, addr), "42"),
		g.Close(t.Context()),
	)
	if err != nil {
		t.Error(err)
	}
}
