package guard_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bench is a guard with its locker, and a second guard on the same store. The
// second one acts as another process. Package test has one that can also change
// and delay requests.
type bench struct {
	*guard.Guard
	mem   *memlocker.Locker
	spy   *counter
	other *guard.Guard
}

func newBench(t *testing.T, opts ...guard.Option) *bench {
	t.Helper()
	b := &bench{mem: memlocker.New()}
	b.spy = &counter{Locker: b.mem}
	b.Guard = newGuard(t, b.spy, opts...)
	b.other = newGuard(t, b.mem.Peer(), opts...)
	return b
}

func newGuard(t *testing.T, l guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.New(t, l, opts...)
}

// must is for calls that cannot fail unless the test is wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func wantErr(t *testing.T, got error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(got, w) {
			t.Fatalf("got error %v, want one that Is %v", got, w)
		}
	}
}

func nop(context.Context) error { return nil }
