// Package lockertest checks that a [locker.Locker] keeps the promises of
// package locker. A store's own tests run it, on a real server or in virtual
// time:
//
//	func TestLocker(t *testing.T) {
//		lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
//			addr := startServer(t)
//			return mylocker.New(addr), mylocker.New(addr)
//		})
//	}
//
// The two lockers stand for two processes. They are two instances on one store.
// The store must be empty at first, and other tests must not share it. The
// suite opens and closes the lockers. If it needs more than two contenders,
// several claims of one locker want the same key, which a guard never does.
//
// The suite mostly waits, and takes about ten seconds on the real clock. It does
// not depend on the speed of the machine, and needs no network of its own. Run
// it with -race, because one check finds its fault by the race detector only.
//
// While you write a store that can run in memory, begin with [RunVirtual],
// which takes less than a second. A locker may need a while until it can be
// told things. A check of messages then begins again.
//
// The suite checks the owner of a key and the end of its lease, and that
// nothing is mixed up. It checks the fate of a key that is released, given up
// or left to its TTL. It checks the order of the queue, the messages to a
// process, and what a process must find by itself. It checks fencing tokens,
// what can be seen of a key, the several owners of a key, several keys that are
// acquired together, records, and what a process hears whose claims linger.
//
// A TTL may end as late as [locker.Limits] says. A store that hands keys over
// shows that by Released.Handed. A store that wakes by watching frees the key
// instead, and then its Wake must be heard.
//
// A failure ends with the law or the method of package locker that was broken.
// A check of something that the locker cannot do, as its [locker.Capabilities]
// say, is skipped by name.
//
// [RunFaulty] checks a locker's duties while its store gives no answer.
//
// Neither of them can see these things:
//
//   - a store that has lost what it knew,
//   - whether Check finds bad settings,
//   - whether the claims of a dead or closed process are passed over,
//   - how many requests a call takes,
//   - tokens across a failover,
//   - what is written for tools to read.
//
// Those are for the store's own tests.
package lockertest

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/go-lockguard/guard/internal/lockercheck"
	"github.com/go-lockguard/guard/locker"
)

// Run runs every check as a subtest of t, several at a time, and returns when
// all have ended. Each has the two unopened lockers of a new store that newPair
// makes. Several goroutines call newPair at once. The functions that newPair
// passes to t.Cleanup run after both lockers are closed.
func Run(t *testing.T, newPair func(t *testing.T) (a, b locker.Locker), opts ...Option) {
	checks := Checks()
	runAll(8, opts, len(checks), func(i int) {
		t.Run(checks[i].Name, func(t *testing.T) { test(t, checks[i], newPair) })
	})
}

// RunVirtual is [Run] with each check, its newPair included, in a
// testing/synctest bubble, where waiting costs no time. The lockers must not
// leave the bubble, so a server must be one in memory.
//
// A goroutine that outlives its locker panics with "deadlock: main bubble
// goroutine has exited but blocked goroutines remain". Of the stacks that
// follow, those in the same bubble are the goroutines that Close has left
// running.
func RunVirtual(t *testing.T, newPair func(t *testing.T) (a, b locker.Locker)) {
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, c, newPair) })
		})
	}
}

// Check is one promise of a [locker.Locker], with its test.
type Check = lockercheck.Check

// Checks returns all checks, for a test that needs more than [Run] gives.
func Checks() []Check { return lockercheck.Checks() }

// ErrSkipped is returned by Check.Test for a promise that the lockers do not
// make. The error names what their [locker.Capabilities] lack.
var ErrSkipped = lockercheck.ErrSkipped

func test(t *testing.T, c Check, newPair func(t *testing.T) (a, b locker.Locker)) {
	t.Helper()
	report(t, c.Test(newPair(t)))
}

// report tells t the result of a check.
func report(t *testing.T, err error) {
	t.Helper()
	switch {
	case errors.Is(err, ErrSkipped):
		t.Skip(err)
	case err != nil:
		t.Error(err)
	}
}
