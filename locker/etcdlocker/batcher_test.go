package etcdlocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// etcd answers the transactions of a batcher after a second each. A transaction
// that writes to a key with the name no is refused, and with it the request.
type etcd struct {
	mu       sync.Mutex // guards requests
	requests [][]string // the keys that each has written
}

func (e *etcd) txn(ctx context.Context, _ []clientv3.Cmp, then, _ []clientv3.Op) (*clientv3.TxnResponse, error) {
	r := &clientv3.TxnResponse{Succeeded: true}
	var keys []string
	for _, op := range then {
		nested := []clientv3.Op{op}
		if op.IsTxn() {
			_, nested, _ = op.Txn()
		}
		keys = append(keys, string(nested[0].KeyBytes()))
		in := &etcdserverpb.TxnResponse{Succeeded: true, Responses: []*etcdserverpb.ResponseOp{about(nested[0])}}
		if !op.IsTxn() {
			r.Responses = in.Responses
			continue
		}
		r.Responses = append(r.Responses, &etcdserverpb.ResponseOp{
			Response: &etcdserverpb.ResponseOp_ResponseTxn{ResponseTxn: in},
		})
	}
	e.mu.Lock()
	e.requests = append(e.requests, keys)
	e.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if slices.Contains(keys, "no") {
		return nil, rpctypes.ErrPermissionDenied
	}
	return r, nil
}

// about answers an operation by the length of its key.
func about(op clientv3.Op) *etcdserverpb.ResponseOp {
	return &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{
		ResponseRange: &etcdserverpb.RangeResponse{Count: int64(len(op.KeyBytes()))},
	}}
}

// batching returns a batcher that sends to an etcd, for a test in virtual time.
func batching(t *testing.T) (*batcher, *etcd) {
	t.Helper()
	e := &etcd{}
	b := &batcher{life: lockerkit.NewLife(store), txn: e.txn}
	if err := errors.Join(b.life.Open(func() error { return nil }), b.life.Enter()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.life.Leave()
		if err := b.life.Close(context.WithoutCancel(t.Context()), func() {}, func() {}); err != nil {
			t.Error(err)
		}
	})
	return b, e
}

// write carries a write to key.
func write(ctx context.Context, b *batcher, key string) (*clientv3.TxnResponse, error) {
	return b.carry(ctx, []string{key}, nil, []clientv3.Op{clientv3.OpGet(key)}, nil)
}

func TestTripsGatherWhileTwoRequestsAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, e := batching(t)
		var all sync.WaitGroup
		for i := range flights + tripsMax + 1 {
			all.Go(func() {
				key := fmt.Sprintf("%0*d", i+1, i)
				r, err := write(t.Context(), b, key)
				if err != nil || !r.Succeeded || rangeOf(r, 0).Count != int64(len(key)) {
					t.Errorf("trip %d: %v, %v, want its own answer", i, r, err)
				}
			})
			synctest.Wait() // so that they come in order
		}
		all.Wait()
		var sizes []int
		for _, keys := range e.requests {
			sizes = append(sizes, len(keys))
		}
		if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 1, 1, tripsMax}) {
			t.Errorf("requests of %v trips, want two alone, and then as many as fit", sizes)
		}
	})
}

// etcd refuses a request that writes a key twice.
func TestARequestWritesNoKeyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, e := batching(t)
		var all sync.WaitGroup
		for _, key := range []string{"x", "y", "a", "a", "b", "a"} {
			all.Go(func() {
				if _, err := write(t.Context(), b, key); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		for _, keys := range e.requests {
			if slices.Sort(keys); len(slices.Compact(slices.Clone(keys))) < len(keys) {
				t.Errorf("a request writes %v", keys)
			}
		}
		if len(e.requests) != 5 {
			t.Errorf("%v, want x and y alone, a and b together, and a alone twice", e.requests)
		}
	})
}

func TestATripThatIsRefusedFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := batching(t)
		var all sync.WaitGroup
		for _, key := range []string{"x", "y", "a", "no", "b"} {
			all.Go(func() {
				if _, err := write(t.Context(), b, key); (err != nil) != (key == "no") {
					t.Errorf("%s: %v", key, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
	})
}

func TestATripThatIsGivenUpSaysWhetherItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, e := batching(t)
		var all sync.WaitGroup
		for i, key := range []string{"x", "y", "late"} {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/time.Duration(2+i))
				defer cancel()
				_, err := write(ctx, b, key)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, locker.ErrUnsent) != (key == "late") {
					t.Errorf("%s: %v", key, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		time.Sleep(time.Minute)
		if len(e.requests) != 2 {
			t.Errorf("%v were sent, want x and y", e.requests)
		}
	})
}

// A request has as much time as the most patient of its trips.
func TestAnImpatientTripDoesNotFailAPatientOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := batching(t)
		hasty, cancel := context.WithTimeout(t.Context(), 3*time.Second/2)
		defer cancel()
		var all sync.WaitGroup
		for _, key := range []string{"x", "y", "patient", "hasty"} {
			all.Go(func() {
				ctx := t.Context()
				if key == "hasty" {
					ctx = hasty
				}
				if _, err := write(ctx, b, key); (err != nil) != (key == "hasty") || errors.Is(err, locker.ErrUnsent) {
					t.Errorf("%s: %v", key, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
	})
}
