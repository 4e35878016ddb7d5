package natstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/natslocker"
)

func TestAServerThatDoesNotListenIsSilent(t *testing.T) {
	s := start(t)
	nc := connect(t, s.ClientURL())
	l := natslocker.New(nc, bucket(t, nc))
	if err := l.Open(waker{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.WithoutCancel(t.Context()))
	s.Shutdown()
	s.WaitForShutdown()
	testguard.Eventually(t, "a try finds silence", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := &locker.Claim{Key: "k", Owner: fmt.Sprintf("%0*d", locker.OwnerLen, 1), TTL: testguard.Patience, Limit: 1}
		_, err := l.Acquire(ctx, c, locker.Try{})
		return errors.Is(err, locker.ErrSilent)
	})
}

// A NAT does so with connections that were idle for long. Requests alone do not
// make the client leave such a connection.
func TestAConnectionThatTheNetworkForgetsIsReplaced(t *testing.T) {
	t.Parallel()
	s := start(t)
	name := bucket(t, connect(t, s.ClientURL()))
	one, other := faultpipe.NewLossy(t, s.Addr().String()), faultpipe.NewLossy(t, s.Addr().String())
	l, err := locker.FromDSN("nats://" + one.Addr + "," + other.Addr + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	g := testguard.Patient(t, l)
	mend := other.Cut(true, true)
	if err := g.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	mend()
	one.Cut(true, true) // this is the way that is used
	if err := g.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}
