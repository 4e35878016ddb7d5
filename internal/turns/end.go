package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/locker"
)

// This file is how a grant ends: by which methods, and why.

// lose ends a grant that cannot be trusted any longer, and tells its occupants.
// The floor goes on, because the function may not notice for long. The key in
// the store is freed when the function has returned.
func (gr *grant) lose(cause error) {
	for _, o := range gr.markLost(cause) {
		o.Lost(cause)
	}
}

// markLost is lose, but for the occupants. It returns those to tell.
func (gr *grant) markLost(cause error) (told []Occupant) {
	gr.mu.Lock()
	if gr.cause != nil {
		gr.mu.Unlock()
		return nil
	}
	gr.cause = cause
	gr.stopTimer()
	for _, t := range gr.everyone() {
		if t.occupant != nil { // otherwise attach will return the cause
			told = append(told, t.occupant)
		}
	}
	kept := gr.tenure.unkeep()
	gr.mu.Unlock()

	gr.gate.dropLost(gr)
	if kept != nil {
		gr.gate.engine.gates.leave(gr.gate)
	}
	return told
}

// discard ends a grant that nobody will use, or use any longer, and leaves its
// release to the locker (law 3).
func (gr *grant) discard() {
	gr.finish()
	gr.abandon(gr.bid.unclear)
}

// abandon asks the locker to remove all that the grant has left in the store.
func (gr *grant) abandon(late bool) { gr.gate.engine.locker.Abandon(&gr.bid.claim, late) }

// finish ends a grant whose tenure is over. It reports whether it was still
// good.
func (gr *grant) finish() bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	good := gr.cause == nil
	if good {
		gr.cause = errFinished
	}
	gr.stopTimer()
	return good
}

// awaitRenewal waits for a renewal in flight, so that afterwards only our
// release is on its way to the store. It returns false if ctx ends first. The
// grant has ended, so no other renewal begins.
func (gr *grant) awaitRenewal(ctx context.Context) bool {
	gr.mu.Lock()
	renewing := gr.renewing
	gr.mu.Unlock()
	if renewing == nil || gr.gate.engine.renewer.forget(gr) {
		return true
	}
	select {
	case <-renewing:
		return true
	case <-ctx.Done():
		return false
	}
}

// Reasons why a grant ended.
var (
	errFinished    = errors.New("guard: the grant was released")
	errClosedUnder = errnote.With(fmt.Errorf("%w: %w", locker.ErrLeaseLost, locker.ErrClosed), errnote.Closed)
	errOutlived    = errnote.With(
		fmt.Errorf("%w: a lease inside it was not released before it", locker.ErrLeaseLost), errnote.Outlived)
)

// overLong is the cause of a grant whose turn has lasted longer than MaxHold.
func overLong(maxHold time.Duration) error {
	return errnote.With(fmt.Errorf("%w: %v", errnote.ErrMaxHold, maxHold), errnote.MaxHold)
}

// overdue is the cause of a grant that was not renewed before its deadline.
// gr.mu is held.
func (gr *grant) overdue(now time.Time) error {
	since := now.Sub(gr.trust.sent()).Round(time.Millisecond)
	why := fmt.Sprintf("the store gave no answer for %v", since)
	switch {
	case gr.bid.terms.noRenewal:
		why = "WithoutRenewal, it ends with its TTL"
	case gr.trust.mono.After(now):
		why = "the machine slept, or its clock was set forward"
	case gr.fault != nil: // the store may have answered; it is text only, because the lease is lost whatever it says
		why = fmt.Sprintf("no renewal succeeded for %v: %v", since, gr.fault)
	}
	err := fmt.Errorf("%w: not renewed before its deadline: %s", locker.ErrLeaseLost, why)
	return errnote.With(err, errnote.Deadline)
}

// taken is the cause of a grant whose claim does not own its key any more. err
// is what the store has said.
func (gr *grant) taken(err error) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	switch {
	case gr.revoked:
		return errnote.With(fmt.Errorf("%w: the key was released by force", locker.ErrLeaseLost), errnote.Forced)
	case err == locker.ErrLeaseLost: //nolint:errorlint // the store says no more
		err = fmt.Errorf("%w: the key is not ours any more", err)
	}
	return errnote.With(err, errnote.Taken)
}

// leftToTTL reports whether a key that was lost for the given cause is left to
// its TTL when the function returns.
func leftToTTL(alone bool, cause error) bool {
	return !alone || errors.Is(cause, locker.ErrClosed) || errors.Is(cause, errOutlived)
}
