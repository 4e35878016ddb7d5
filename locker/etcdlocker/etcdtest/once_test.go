package etcdtest_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// fleet returns guards of processes on one store.
func fleet(t *testing.T, n int, opts ...guard.Option) []*guard.Guard {
	t.Helper()
	addr, prefix := store(t)
	all := make([]*guard.Guard, n)
	for i := range all {
		g, err := guard.New(etcdlocker.New(etcdtest.Client(t, addr), etcdlocker.WithPrefix(prefix)),
			append([]guard.Option{
				guard.WithTTL(time.Minute), guard.WithMaxWait(time.Minute), guard.WithMaxWaiters(0),
			}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		all[i] = g
	}
	return all
}

// Some callers of a key want its result, some only its lock, and some of the
// functions fail. One function of each key succeeds, and everybody has its
// result.
func TestAResultOnEtcdIsMadeOnce(t *testing.T) {
	t.Parallel()
	const keys, callers = 6, 12
	guards := fleet(t, 3)
	errOwn := errors.New("own")
	var all sync.WaitGroup
	for k := range keys {
		key := guard.Key("result", strconv.Itoa(k))
		var runs, made atomic.Int32
		for i := range callers {
			g := guards[i%len(guards)]
			all.Go(func() {
				if i%4 == 3 {
					if err := g.Do(t.Context(), key, func(context.Context) error { return nil }); err != nil {
						t.Errorf("Do of %s: %v", key, err)
					}
					return
				}
				got, err := guard.Once(t.Context(), g, key, time.Hour, func(context.Context) (int32, error) {
					if runs.Add(1) == 1 && k%2 == 1 {
						return 0, errOwn
					}
					return made.Add(1), nil
				})
				if !errors.Is(err, errOwn) && (err != nil || got != 1) {
					t.Errorf("Once of %s: %d, %v", key, got, err)
				}
			})
		}
	}
	all.Wait()
}

// A function that began and failed never runs again, in no process, until its
// mark is forgotten.
func TestAtMostOnceOnEtcdAFailedFunctionDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	guards := fleet(t, 2, guard.WithAtMostOnce())
	errOwn, runs := errors.New("own"), 0
	once := func(g *guard.Guard, err error) error {
		_, err = guard.Once(t.Context(), g, "k", time.Hour, func(context.Context) (int, error) {
			runs++
			return runs, err
		})
		return err
	}
	if err := once(guards[0], guard.NothingDone(errOwn)); !errors.Is(err, errOwn) {
		t.Error(err)
	}
	if err := once(guards[1], errOwn); !errors.Is(err, errOwn) || runs != 2 {
		t.Errorf("got %v after %d runs, want the function's own error after 2", err, runs)
	}
	for _, g := range guards {
		if err := once(g, nil); !errors.Is(err, guard.ErrInterrupted) || runs != 2 {
			t.Errorf("got %v after %d runs, want ErrInterrupted after 2", err, runs)
		}
	}
	if found, err := guards[0].Forget(t.Context(), "k"); !found || err != nil {
		t.Errorf("Forget: %v, %v", found, err)
	}
	for _, g := range guards {
		if err := once(g, nil); err != nil || runs != 3 {
			t.Errorf("got %v after %d runs, want the result after 3", err, runs)
		}
	}
}

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
	if records != 1 {
		t.Errorf("%d records, want 1", records)
	}
}

func TestAKeyIsFreedWhoseResultEtcdRefuses(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	l := etcdlocker.New(etcdtest.Client(t, addr), etcdlocker.WithPrefix(prefix))
	if err := l.Open(deaf{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	c := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Hour, Recall: true}
	if _, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil {
		t.Fatal(err)
	}
	tooLong := locker.Record{Value: strings.Repeat("r", 1600<<10), TTL: time.Hour}
	if _, err := l.Keep(t.Context(), c, nil, tooLong); !errors.Is(err, locker.ErrUnavailable) {
		t.Fatalf("%v, want a refusal", err)
	}
	l.Abandon(c, true)
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		s, err := l.Inspect(t.Context(), "k")
		if err == nil && !s.Held {
			return
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%+v, %v, want a free key", s, err)
		}
	}
}
