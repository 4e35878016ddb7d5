package natstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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
		c := &locker.Claim{Key: "k", Owner: fmt.Sprintf("%0*d", locker.OwnerLen, 1), TTL: patience, Limit: 1}
		_, err := l.Acquire(ctx, c, locker.Try{})
		return errors.Is(err, locker.ErrSilent)
	})
}
