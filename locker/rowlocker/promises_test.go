package rowlocker_test

import (
	"testing"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

func TestTheExampleKeepsItsPromises(t *testing.T) {
	lockertest.RunVirtual(t, func(*testing.T) (a, b locker.Locker) {
		s := &store{rows: map[string]entry{}}
		return rowlocker.New(s), rowlocker.New(s)
	})
}
