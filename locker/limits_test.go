package locker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

func TestATTLThatAStoreCannotKeepIsRefusedWithTheNumbers(t *testing.T) {
	coarse := locker.Limits{MinTTL: 2 * time.Second, MaxTTL: time.Hour, Step: time.Second}
	for _, c := range []struct {
		of   locker.Limits
		ttl  time.Duration
		says string // "" for a TTL that can be kept
	}{
		{coarse, 2 * time.Second, ""},
		{coarse, time.Hour, ""},
		{coarse, time.Second, "the TTL is 1s, but this store keeps a key for 2s to 1h0m0s, in steps of 1s"},
		{coarse, time.Hour + time.Second, "the TTL is 1h0m1s"},
		{coarse, 2500 * time.Millisecond, "in steps of 1s"},
		{locker.Limits{}, 100 * time.Millisecond, ""},
		{locker.Limits{}, 24 * 24 * time.Hour, ""},
		{locker.Limits{}, 99 * time.Millisecond, "100ms to 576h0m0s"},
	} {
		err := c.of.Check(c.ttl)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%v: %v, want it kept", c.ttl, err)
		case c.says != "" && (!errors.Is(err, locker.ErrInvalidOption) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%v: %v, want an ErrInvalidOption with %q", c.ttl, err, c.says)
		}
	}
}
