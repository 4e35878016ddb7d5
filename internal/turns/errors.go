package turns

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/loss"
	"github.com/go-lockguard/guard/locker"
)

// Reasons why a grant ended, or why a call does not wait any longer.
var (
	errFinished    = errors.New("guard: the grant was released")
	errNoWait      = errors.New("guard: would have to wait") // becomes a Refusal
	errClosedUnder = loss.Because(loss.Closed, fmt.Errorf("%w: %w", locker.ErrLeaseLost, locker.ErrClosed))
	errOutlived    = loss.Because(loss.Outlived,
		fmt.Errorf("%w: a lease inside it was not released before it", locker.ErrLeaseLost))
)

// overLong is the cause of a grant whose turn has lasted longer than MaxHold.
func overLong(maxHold time.Duration) error {
	return loss.Because(loss.MaxHold, fmt.Errorf("%w: %v", ErrMaxHold, maxHold))
}

// overdue is the cause of a grant that was not renewed before its deadline.
// gr.mu is held.
func (gr *grant) overdue(now time.Time) error {
	silent := now.Sub(gr.trust.sent()).Round(time.Millisecond)
	why := fmt.Sprintf("the store gave no answer for %v", silent)
	switch {
	case gr.bid.terms.noRenewal:
		why = "WithoutRenewal, it ends with its TTL"
	case gr.trust.mono.After(now):
		why = "the machine slept, or its clock was set forward"
	}
	return loss.Because(loss.Deadline, fmt.Errorf("%w: not renewed before its deadline: %s", locker.ErrLeaseLost, why))
}

// taken is the cause of a grant whose claim does not own its key any more. err
// is what the store has said.
func (gr *grant) taken(err error) error {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	switch {
	case gr.revoked:
		return loss.Because(loss.Forced, fmt.Errorf("%w: the key was released by force", locker.ErrLeaseLost))
	case err == locker.ErrLeaseLost: //nolint:errorlint // the store says no more
		err = fmt.Errorf("%w: the key is not ours any more", err)
	}
	return loss.Because(loss.Taken, err)
}
