package natstest_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/natslocker"
)

// The marker of a deletion refuses a write, and is gone when the row is read. A
// write under way that comes to nothing does the same.
func TestAWriteThatNothingRefusesAnyMoreIsSentAgain(t *testing.T) {
	s := start(t, func(o *server.Options) { o.JetStream = false })
	nc := connect(t, s.ClientURL())
	var writes, reads atomic.Int64
	answer := func(subject string, text func() string) {
		t.Helper()
		_, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(text())) })
		if err != nil {
			t.Fatal(err)
		}
	}
	const refusals = 3
	answer("$KV.b.>", func() string {
		if n := writes.Add(1); n <= refusals {
			return `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"KV_b","seq":0}`
		}
		return `{"stream":"KV_b","seq":7}`
	})
	answer("$JS.API.STREAM.MSG.GET.KV_b", func() string {
		reads.Add(1)
		return `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
	})
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	l := natslocker.New(connect(t, s.ClientURL()), "b")
	if err := l.Open(waker{}); err != nil {
		t.Fatal(err)
	}
	c := &locker.Claim{Key: "k", Owner: fmt.Sprintf("%0*d", locker.OwnerLen, 1), TTL: testguard.Patience, Limit: 1}
	if a, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil || !a.Acquired {
		t.Errorf("Acquire: %+v, %v, want the key", a, err)
	}
	if w, r := writes.Load(), reads.Load(); w != refusals+1 || r != refusals {
		t.Errorf("%d writes and %d reads, want one of each for each refusal, and one write", w, r)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
