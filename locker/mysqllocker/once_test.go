package mysqllocker_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest/sqlfault"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

func TestCallersOfTwoLockersGetOneResult(t *testing.T) {
	name := newTable(t, open(t))
	var gs [2]*guard.Guard
	for i := range gs {
		g, err := guard.New(mysqllocker.New(open(t), name), guard.WithMaxWait(time.Minute), guard.WithTTL(time.Minute),
			guard.WithResultLimit(locker.MaxRecord))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		gs[i] = g
	}
	sqlfault.OneResult(t, gs)
}
