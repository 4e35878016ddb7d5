package turns

import (
	"errors"
	"fmt"

	"github.com/go-lockguard/guard/locker"
)

// Why a grant ended, or a call does not wait any longer.
var (
	errFinished    = errors.New("guard: the grant was released")
	errNoWait      = errors.New("guard: would have to wait") // becomes a Refusal
	errClosedUnder = fmt.Errorf("%w: %w", locker.ErrLeaseLost, locker.ErrClosed)
	errOutlived    = fmt.Errorf("%w: a lease inside it was not released before it", locker.ErrLeaseLost)
)
