package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func TestMain(m *testing.M) {
	os.Exit(etcdtest.Main(func() int {
		dir, err := os.MkdirTemp("", "etcdtest")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			shared, err = start(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "no etcd:", err)
			return 1
		}
		code := m.Run()
		shared.Kill()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}))
}

var (
	shared *etcdtest.Member // for all tests that do it no harm, from TestMain
	stores atomic.Int32
)

// start starts the shared server. Its ports may be gone when it binds them.
func start(dir string) (*etcdtest.Member, error) {
	var errs []error
	for i := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // it builds etcd first
		members, err := etcdtest.NewCluster(ctx, 1, filepath.Join(dir, strconv.Itoa(i)), etcdtest.Settings{})
		cancel()
		if err == nil {
			return members[0], nil
		}
		for _, m := range members {
			m.Kill()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// store returns the address of a server, and a prefix that no other test has.
func store(t *testing.T) (addr, prefix string) {
	t.Helper()
	return shared.Addr, fmt.Sprintf("test%d/", stores.Add(1))
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
