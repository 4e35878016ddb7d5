// Package lockercheck has the checks of package lockertest, without package
// testing, for a command that makes them.
package lockercheck

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Check is one promise of a [locker.Locker], with its test.
type Check struct {
	Name string // the promise

	rule string // the place in package locker that makes it
	run  func(p *pair)
}

// Checks returns all checks.
func Checks() []Check {
	var all []Check
	for _, of := range [][]Check{
		ownership, renewal, ended, release, givingUp, handover, queueing, moment, resting, outsiders, granting,
		fencing, crowd, inspection, sharing, sharedQueue, permits,
		several, recording, marking, listening,
		life,
	} {
		all = append(all, of...)
	}
	return all
}

// ErrSkipped is returned by [Check.Test] for a promise that the lockers do not
// make. The error names what their [locker.Capabilities] lack.
var ErrSkipped = errors.New("not checked")

// Test opens a and b, which are two lockers on one new store, checks the
// promise, and closes them. It returns nil, an ErrSkipped, or the fault that it
// found. It blocks for some minutes at most, if the lockers heed their
// contexts.
func (c Check) Test(a, b locker.Locker) error {
	return c.on(&pair{a: newSide("a", a), b: newSide("b", b)})
}

func (c Check) on(p *pair) error {
	if err := c.check(p); err != nil {
		return fmt.Errorf("%w (%s)", err, c.rule)
	}
	return nil
}

func (c Check) check(p *pair) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	p.ctx, p.can, p.seen = ctx, p.a.Capabilities(), map[string]time.Time{}
	for _, s := range []*side{p.a, p.b} {
		if err := s.Open(s.ear); err != nil {
			return fmt.Errorf("Open: %w", err)
		}
		defer func() {
			err = errors.Join(err, s.close(ctx))
		}()
	}
	return caught(func() error { c.run(p); return nil })
}

// failure is the panic by which a check ends at its first mistake. A function
// that starts a goroutine catches it there.
type failure struct{ error }

// caught returns the error of f, or the failure that ended it.
func caught(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	return f()
}

func fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// Results are those of all checks.
type Results struct {
	Kept    int      `json:"checks_kept"`
	Skipped int      `json:"checks_skipped"`     // of what the store does not have
	Broken  []string `json:"violated,omitempty"` // each with the name of its check
}

// TestAll makes all checks, several at a time, until ctx ends. open opens a
// locker on a part of a store. end is called when it is closed.
func TestAll(
	ctx context.Context, several int, open func(part string) (l locker.Locker, end func(), err error),
) (r Results) {
	var mu sync.Mutex // guards r
	note := func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			r.Kept++
		case errors.Is(err, ErrSkipped):
			r.Skipped++
		default:
			r.Broken = append(r.Broken, name+": "+err.Error())
		}
	}
	var work sync.WaitGroup
	turns := make(chan struct{}, several)
	for i, c := range Checks() {
		turns <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-turns }()
			a, endA, err := open(strconv.Itoa(i))
			if err != nil {
				note(c.Name, err)
				return
			}
			defer endA()
			b, endB, err := open(strconv.Itoa(i))
			if err != nil {
				note(c.Name, err)
				return
			}
			defer endB()
			note(c.Name, c.Test(a, b))
		})
	}
	work.Wait()
	return r
}
