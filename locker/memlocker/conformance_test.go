package memlocker

import (
	"testing"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
)

func newPair(*testing.T) (a, b locker.Locker) {
	l := New()
	return l, l.Peer()
}

// Nothing but time is short here, so all checks wait at once.
func TestConformance(t *testing.T) {
	t.Parallel()
	lockertest.Run(t, newPair, lockertest.AtOnce(len(lockertest.Checks())))
}

func TestConformanceInVirtualTime(t *testing.T) { lockertest.RunVirtual(t, newPair) }

func TestConformanceInAnOutage(t *testing.T) {
	t.Parallel()
	lockertest.RunFaulty(t, func(*testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		l := New()
		return l, l.Peer(), l.Break
	}, lockertest.AtOnce(len(lockertest.FaultyChecks())))
}
