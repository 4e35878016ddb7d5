package redislocker_test

import (
	"context"
	"testing"

	"github.com/go-lockguard/guard/locker/redislocker"
)

// Listens is true exactly while messages are sure to arrive, and each change
// comes with a WakeAll.
func TestListensWhileMessagesArrive(t *testing.T) {
	t.Parallel() // it mostly waits
	_, p, _, rdb := behindProxy(t)
	unopened := redislocker.New(rdb)
	if unopened.Listens() {
		t.Error("it listens before Open")
	}
	e := newEar()
	l := openFor(t, e, rdb)
	if l.Listens() {
		t.Error("it listens before the server has confirmed that")
	}
	e.wakeAll(t)
	if !l.Listens() {
		t.Error("it does not listen")
	}
	p.DropUp(true)
	p.CutAll()
	e.wakeAll(t)
	if l.Listens() {
		t.Error("it listens without a connection")
	}
	p.DropUp(false)
	eventually(t, "it listens again", l.Listens)
	e.wakeAll(t)
	_ = l.Close(context.WithoutCancel(t.Context()))
	if l.Listens() {
		t.Error("it listens after Close")
	}
}
