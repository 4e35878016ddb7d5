package lockertest_test

import (
	"fmt"
	"testing"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/memlocker" // your store
)

// In your store's tests this is func TestLocker(t *testing.T).
func ExampleRun() {
	testLocker := func(t *testing.T) {
		lockertest.Run(t, func(*testing.T) (a, b locker.Locker) {
			l := memlocker.New() // a new store for each check
			return l, l.Peer()   // two processes that use it
		})
	}
	fmt.Println(testLocker != nil, len(lockertest.Checks()) > 50) // promises, each a subtest
	// Output:
	// true true
}

// Each way in which your store can fail deserves a run.
func ExampleRunFaulty() {
	testOutage := func(t *testing.T) {
		lockertest.RunFaulty(t, func(*testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
			l := memlocker.New()
			return l, l.Peer(), l.Break // say, SIGSTOP to the server, and SIGCONT to mend it
		})
	}
	fmt.Println(testOutage != nil, len(lockertest.FaultyChecks()) > 5) // promises, each a subtest
	// Output:
	// true true
}
