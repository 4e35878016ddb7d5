package lockertest

import (
	"testing"

	"github.com/go-lockguard/guard/internal/lockercheck"
	"github.com/go-lockguard/guard/locker"
)

// RunFaulty runs every [FaultyCheck] as a subtest of t. They test a locker's
// duties to the guard while its store gives no answer.
//
// newPair is as for [Run]. It also returns breakStore, which breaks the store
// for both lockers. From then on no request is answered, until mend is called.
// Leases go on and end meanwhile.
//
// A store can fail in several ways, and each deserves a run: the server hangs
// (SIGSTOP), requests get lost, answers get lost, connections are refused.
//
// The checks run one at a time, because a fault of a shared server would hit
// them all. They take some 15 seconds on the real clock, or 5 with [AtOnce]
// where breakStore breaks one pair's store only.
//
// RunFaulty does not look for goroutines that Close leaves running. A leak
// detector in TestMain finds them.
func RunFaulty(t *testing.T, newPair func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())),
	opts ...Option,
) {
	checks := FaultyChecks()
	runAll(1, opts, len(checks), func(i int) {
		t.Run(checks[i].Name, func(t *testing.T) {
			a, b, breakStore := newPair(t)
			report(t, checks[i].Test(a, b, breakStore))
		})
	})
}

// FaultyCheck is one promise of a [locker.Locker] whose store gives no answer.
type FaultyCheck = lockercheck.FaultyCheck

// FaultyChecks returns all of these checks, for a test that needs more than
// [RunFaulty] gives, such as virtual time.
func FaultyChecks() []FaultyCheck { return lockercheck.FaultyChecks() }
