package guard_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// coarse is a store that counts whole seconds. It keeps a key for at least 2 s.
type coarse struct{ *memlocker.Locker }

func (coarse) Capabilities() locker.Capabilities {
	return locker.Capabilities{Limits: locker.Limits{MinTTL: 2 * time.Second, Step: time.Second}}
}

func TestNew_ATTLThatTheStoreCannotKeepIsRefused(t *testing.T) {
	const says = "the TTL is 1s, but this store keeps a key for 2s to 576h0m0s, in steps of 1s"
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, guard.ErrInvalidOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an ErrInvalidOption with %q", what, err, says)
		}
	}
	_, err := guard.New(coarse{memlocker.New()}, guard.WithTTL(time.Second))
	refused("New", err)

	g, err := guard.New(coarse{memlocker.New()}, guard.WithTTL(2*time.Second))
	if err != nil {
		t.Fatalf("New with a TTL that the store keeps: %v", err)
	}
	defer func() {
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		err, _ := recover().(error)
		refused("With", err)
	}()
	g.With(guard.WithTTL(time.Second))
}
