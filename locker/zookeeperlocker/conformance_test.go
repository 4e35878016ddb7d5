package zookeeperlocker_test

import (
	"testing"

	"github.com/go-lockguard/guard/internal/faultpipe/lossytest"
	"github.com/go-lockguard/guard/internal/rowtest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

func TestTheLockerKeepsItsPromises(t *testing.T) {
	t.Parallel()
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		addr, prefix := store(t)
		return at(zktest.Connect(t, session, addr), prefix), at(zktest.Connect(t, session, addr), prefix)
	})
}

func TestTheLockerKeepsItsPromisesWithoutAnswers(t *testing.T) {
	t.Parallel()
	lossytest.RunFaulty(t, func(t *testing.T) (server string, open func(addr string) locker.Locker) {
		t.Helper()
		server, prefix := store(t)
		return server, func(addr string) locker.Locker { return at(zktest.Connect(t, session, addr), prefix) }
	})
}

func TestWhatARowSaysEnds(t *testing.T) {
	t.Parallel()
	rowtest.Run(t, func(t *testing.T) (process func() locker.Locker) {
		t.Helper()
		addr, prefix := store(t)
		conn := zktest.Connect(t, session, addr)
		return func() locker.Locker { return at(conn, prefix) }
	})
}
