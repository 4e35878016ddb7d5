package etcdtest_test

import (
	"testing"

	"github.com/go-lockguard/guard/internal/faultpipe/lossytest"
	"github.com/go-lockguard/guard/internal/rowtest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
	"github.com/go-lockguard/guard/locker/lockertest"
)

func TestTheLockerKeepsItsPromises(t *testing.T) {
	t.Parallel()
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		addr, prefix := store(t)
		t.Cleanup(func() { wantNoKeys(t, addr, prefix) })
		one := func() locker.Locker {
			return etcdlocker.New(etcdtest.Client(t, addr), etcdlocker.WithPrefix(prefix))
		}
		return one(), one()
	})
}

func TestTheLockerKeepsItsPromisesWithoutAnswers(t *testing.T) {
	t.Parallel()
	lossytest.RunFaulty(t, func(t *testing.T) (server string, open func(addr string) locker.Locker) {
		t.Helper()
		server, prefix := store(t)
		return server, func(addr string) locker.Locker {
			return etcdlocker.New(etcdtest.Client(t, addr), etcdlocker.WithPrefix(prefix))
		}
	})
}

func TestWhatARowSaysEnds(t *testing.T) {
	t.Parallel()
	rowtest.Run(t, func(t *testing.T) (process func() locker.Locker) {
		t.Helper()
		addr, prefix := store(t)
		c := etcdtest.Client(t, addr)
		return func() locker.Locker { return etcdlocker.New(c, etcdlocker.WithPrefix(prefix)) }
	})
}
