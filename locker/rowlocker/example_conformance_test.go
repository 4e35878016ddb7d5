package rowlocker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

func TestTheExampleIsAStore(t *testing.T) {
	lockertest.RunVirtual(t, func(*testing.T) (a, b locker.Locker) {
		db := &server{rows: map[string]rowlocker.Row{}}
		return rowlocker.New(store{db}), rowlocker.New(store{db})
	})
}

// cut is the example while its server may be out of reach.
type cut struct {
	store

	off *atomic.Bool
}

func (s cut) reach() error {
	if s.off.Load() {
		return fmt.Errorf("example: %w: %w: nobody listens", locker.ErrUnavailable, locker.ErrUnsent)
	}
	return nil
}

func (s cut) Load(ctx context.Context, keys []string) ([]rowlocker.Row, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.store.Load(ctx, keys)
}

func (s cut) Swap(ctx context.Context, changes []*rowlocker.Change) error {
	if err := s.reach(); err != nil {
		return err
	}
	return s.store.Swap(ctx, changes)
}

func (s cut) Scan(ctx context.Context, after string, n int) ([]rowlocker.Row, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.store.Scan(ctx, after, n)
}

func TestTheExampleInAnOutage(t *testing.T) {
	lockertest.RunFaulty(t, func(*testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		s := cut{store{&server{rows: map[string]rowlocker.Row{}}}, new(atomic.Bool)}
		return rowlocker.New(s), rowlocker.New(s), func() (mend func()) {
			s.off.Store(true)
			return sync.OnceFunc(func() { s.off.Store(false) })
		}
	}, lockertest.AtOnce(len(lockertest.FaultyChecks())))
}
