package etcdtest_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// counted is a locker whose requests are counted, but for those that keep a
// process alive.
type counted struct {
	*etcdlocker.Locker

	prefix   string
	requests atomic.Int32
}

func newCounted(t *testing.T, addr, prefix string) *counted {
	t.Helper()
	c := &counted{prefix: prefix}
	config := etcdtest.Config(addr)
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(c.count))
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c.Locker = etcdlocker.New(client, etcdlocker.WithPrefix(prefix))
	if err := c.Open(lockerkit.Deaf{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	// A locker that hears nothing for a second looks by itself, and those
	// requests would count.
	testguard.Eventually(t, "messages come", c.Listens)
	return c
}

func (c *counted) count(
	ctx context.Context, method string, in, out any,
	cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	txn, ok := in.(*etcdserverpb.TxnRequest)
	pulse := ok && len(txn.Success) == 1 &&
		strings.HasPrefix(string(txn.Success[0].GetRequestPut().GetKey()), c.prefix+"p/")
	if strings.HasPrefix(method, "/etcdserverpb.KV/") && !pulse {
		c.requests.Add(1)
	}
	return invoke(ctx, method, in, out, cc, opts...)
}

func claimed(key string, limit int) *locker.Claim {
	return &locker.Claim{Key: key, Owner: lockerkit.NewID(), TTL: time.Minute, Limit: limit}
}

// Package rowlocker counts the reads and writes of each call. Each of them is
// one request of etcd.
func TestACallIsOneRequest(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c, ctx := newCounted(t, addr, prefix), t.Context()
	one, several := claimed("one", 0), make([]*locker.Claim, locker.MaxSeveral)
	for i := range several {
		several[i] = claimed(fmt.Sprint("k", i), 0)
	}
	for _, call := range []struct {
		what string
		do   func() (ok bool, err error)
	}{
		{"a free key", func() (bool, error) {
			a, err := c.Acquire(ctx, one, locker.Try{Wait: true})
			return a.Acquired, err
		}},
		{"a renewal", func() (ok bool, err error) {
			c.Renew(ctx, []*locker.Claim{one}, func(_ int, e error) { ok, err = true, e })
			return ok, err
		}},
		{"a release", func() (bool, error) {
			_, err := c.Release(ctx, one, locker.End{})
			return true, err
		}},
		{"several keys", func() (bool, error) {
			_, held, err := c.AcquireAll(ctx, several, false)
			return held == len(several), err
		}},
	} {
		before := c.requests.Load()
		ok, err := call.do()
		if n := c.requests.Load() - before; n != 1 || !ok || err != nil {
			t.Errorf("%s: %d requests, done %v, %v; want one request", call.what, n, ok, err)
		}
	}
}

// grants is a Waker that counts its grants.
type grants struct {
	lockerkit.Deaf

	n atomic.Int32
}

func (g *grants) Granted(string, string, locker.Offer) { g.n.Add(1) }

// etcd takes so many operations in one request. A release lets in more claims
// than have room there side by side.
func TestAReleaseLetsInAllThatMayOwnTheKeyTogether(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	l, told := etcdlocker.New(etcdtest.Client(t, addr), etcdlocker.WithPrefix(prefix)), &grants{}
	if err := l.Open(told); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	const many = 30
	for n := range 20 {
		owner, began := claimed(fmt.Sprint("k", n), 0), time.Now()
		told.n.Store(0)
		if a, err := l.Acquire(t.Context(), owner, locker.Try{}); err != nil || !a.Acquired {
			t.Fatal(a, err)
		}
		errs := make(chan error, many)
		for range many { // at once, so that none leaves the queue before the last is there
			go func() { // ends with its one call
				_, err := l.Acquire(t.Context(), claimed(owner.Key, locker.NoLimit), locker.Try{Wait: true})
				errs <- err
			}()
		}
		for range many {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(began) > locker.QueueLife/2 {
			continue // some may leave the queue
		}
		if _, err := l.Release(t.Context(), owner, locker.End{}); err != nil {
			t.Fatal(err)
		}
		if s, err := l.Inspect(t.Context(), owner.Key); err != nil || s.Waiting > 0 {
			t.Errorf("%d still wait, %v, want all to come in", s.Waiting, err)
		}
		testguard.Eventually(t, "all hear of it", func() bool { return told.n.Load() == many })
		return
	}
	t.Fatal("the machine is too slow")
}

// A row that etcd deletes frees its key, also of an owner that is cut off.
func TestARowOutlivesTheLeaseOfItsOwner(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	client := etcdtest.Client(t, addr)
	c := newCounted(t, addr, prefix)
	for _, ttl := range []time.Duration{10 * time.Second, time.Hour} {
		owner := claimed(ttl.String(), 0)
		owner.TTL = ttl
		if a, err := c.Acquire(t.Context(), owner, locker.Try{}); err != nil || !a.Acquired {
			t.Fatal(a, err)
		}
		row, err := client.Get(t.Context(), prefix+"{"+owner.Key+"}")
		if err != nil || len(row.Kvs) != 1 {
			t.Fatal(row, err)
		}
		life, err := client.TimeToLive(t.Context(), clientv3.LeaseID(row.Kvs[0].Lease))
		if err != nil || life.GrantedTTL < int64(ttl/time.Second) {
			t.Errorf("the row of a lease of %v lasts %d s, %v", ttl, life.GrantedTTL, err)
		}
	}
}
