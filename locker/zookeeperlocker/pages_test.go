package zookeeperlocker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
)

// The code of docs/stores.md.

func openZooKeeper(servers ...string) (*guard.Guard, *zk.Conn, error) {
	conn, _, err := zk.Connect(servers, 10*time.Second)
	if err != nil {
		return nil, nil, err
	}
	g, err := guard.New(zookeeperlocker.New(conn), guard.WithTTL(5*time.Second))
	return g, conn, err
}

func TestTheCodeOfThePagesRuns(t *testing.T) {
	t.Parallel()
	addr, _ := store(t)
	g, conn, err := openZooKeeper(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	patient := g.With(guard.WithMaxWait(testguard.Patience)) // the first session of a busy machine takes its time
	err = errors.Join(
		patient.Do(t.Context(), "sku:42", nothing),
		g.Close(t.Context()),
	)
	if err != nil {
		t.Error(err)
	}
}
