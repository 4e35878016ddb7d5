package etcdtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// A record whose etcd lease is too short would let the function run again.
func TestOnEtcdTheLongestTTLIsLong(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := etcdtest.Client(t, addr)
	g, _ := newGuard(t, c, prefix)
	key := guard.Key("long", 1)
	for range 2 {
		got, err := guard.Once(t.Context(), g, key, locker.MaxRecordTTL,
			func(context.Context) (int, error) { return 1, nil })
		if got != 1 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	}
	r, err := c.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	records := 0
	for _, kv := range r.Kvs {
		if !strings.Contains(string(kv.Key), "{long:") {
			continue
		}
		records++
		life, err := c.TimeToLive(t.Context(), clientv3.LeaseID(kv.Lease))
		if err != nil || life.TTL < int64(locker.MaxRecordTTL/time.Second)-60 {
			t.Errorf("%s ends in %v s, %v", kv.Key, life, err)
		}
	}
	if records == 0 {
		t.Error("there is no record")
	}
}

func TestAKeyIsFreedWhoseResultEtcdRefuses(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	l := etcdlocker.New(etcdtest.Client(t, addr), etcdlocker.WithPrefix(prefix))
	if err := l.Open(lockerkit.Deaf{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	c := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Hour, Recall: true}
	if _, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil {
		t.Fatal(err)
	}
	tooLong := locker.Record{Value: strings.Repeat("r", 1600<<10), TTL: time.Hour}
	if _, err := l.Release(t.Context(), c, locker.End{Record: tooLong}); !errors.Is(err, locker.ErrUnavailable) {
		t.Fatalf("%v, want a refusal", err)
	}
	_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
	testguard.Eventually(t, "the key is free", func() bool {
		s, err := l.Inspect(t.Context(), "k")
		return err == nil && !s.Held
	})
}
