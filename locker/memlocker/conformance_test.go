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

func TestConformance(t *testing.T)              { lockertest.Run(t, newPair) }
func TestConformanceInVirtualTime(t *testing.T) { lockertest.RunVirtual(t, newPair) }

func TestConformanceInAnOutage(t *testing.T) {
	lockertest.RunFaulty(t, func(*testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
		l := New()
		return l, l.Peer(), l.Break
	})
}
