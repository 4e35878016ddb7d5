package etcdtest_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func TestMain(m *testing.M) {
	os.Exit(etcdtest.Main(func() int {
		code := m.Run()
		if sharedDir != "" {
			m, _ := shared()
			m.Kill()
			_ = os.RemoveAll(sharedDir)
		}
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}))
}

// shared is a server for all tests that do it no harm. It ends with TestMain.
var shared = sync.OnceValues(func() (*etcdtest.Member, error) {
	dir, err := os.MkdirTemp("", "etcdtest")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // it builds etcd first
	defer cancel()
	members, err := etcdtest.NewCluster(ctx, 1, dir, etcdtest.Settings{})
	if err != nil {
		return nil, err
	}
	sharedDir = dir
	return members[0], nil
})

var (
	sharedDir string // "" before shared was called
	stores    atomic.Int32
)

// store returns the address of a server, and a prefix that no other test has.
func store(t *testing.T) (addr, prefix string) {
	t.Helper()
	m, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return m.Addr, fmt.Sprintf("test%d/", stores.Add(1))
}

// wantNoKeys fails if there are keys with the prefix that no etcd lease will
// take away.
func wantNoKeys(t *testing.T, addr, prefix string) {
	t.Helper()
	r, err := etcdtest.Client(t, addr).Get(context.WithoutCancel(t.Context()), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs {
		if kv.Lease == 0 {
			t.Errorf("%s stays for ever", kv.Key)
		}
	}
}
