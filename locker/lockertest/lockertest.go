// Package lockertest checks that a [guard.Locker] keeps the promises in its documentation. A locker's own tests run it,
// on a real server or in virtual time:
//
//	func TestLocker(t *testing.T) {
//		lockertest.Run(t, func(t *testing.T) (a, b guard.Locker) {
//			addr := startServer(t)
//			return mylocker.New(addr), mylocker.New(addr)
//		})
//	}
//
// The two lockers stand for two processes: two instances on one store, which must be empty at first and is not shared
// with other tests. The suite opens and closes them. It takes a few seconds on a real server, does not depend on how fast
// the machine is, and needs no network of its own.
//
// What it cannot check is how a locker behaves while its store is unreachable or slow: that needs faults which only the
// locker's own tests can plant.
package lockertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// Run runs every check as a subtest of t, each on the two unopened lockers of a new store that newPair makes. What
// newPair leaves in t.Cleanup runs after both are closed.
func Run(t *testing.T, newPair func(t *testing.T) (a, b guard.Locker)) {
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) { c.test(t, newPair) })
	}
}

// RunVirtual is [Run] with each check, its newPair included, in a testing/synctest bubble: waiting costs no time, and a
// goroutine that outlives its locker fails the test. The lockers must not leave the bubble, so a server is one in memory.
func RunVirtual(t *testing.T, newPair func(t *testing.T) (a, b guard.Locker)) {
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.test(t, newPair) })
		})
	}
}

// Check is one promise of a [guard.Locker] and how it is checked.
type Check struct {
	Name string // the promise

	run func(p *pair)
}

// Checks returns all checks, for a test that wants more than [Run] gives.
func Checks() []Check {
	var all []Check
	for _, of := range [][]Check{ownership, renewal, release, abandoning, fencing, life} {
		all = append(all, of...)
	}
	return all
}

func (c Check) test(t *testing.T, newPair func(t *testing.T) (a, b guard.Locker)) {
	t.Helper()
	if err := c.Test(newPair(t)); err != nil {
		t.Error(err)
	}
}

// Test opens a and b, two lockers on one new store, checks the promise, closes them, and returns what was wrong, or nil.
// It blocks for at most about a minute, if the lockers heed their contexts.
func (c Check) Test(a, b guard.Locker) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, l := range []guard.Locker{a, b} {
		if err := l.Open(waker{}); err != nil {
			return fmt.Errorf("Open: %w", err)
		}
		defer func() {
			if e := l.Close(ctx); e != nil {
				err = errors.Join(err, fmt.Errorf("Close: %w", e))
			}
		}()
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	c.run(&pair{ctx: ctx, a: a, b: b})
	return nil
}

// waker answers as a gate does that has a waiter for every key.
type waker struct{}

func (waker) Wake(string, int) bool { return true }
func (waker) Wanted(string)         {}
func (waker) WakeAll()              {}

// failure is what a check panics with to end at its first mistake. It never leaves Test.
type failure struct{ error }

func fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}
