// Package fence is for the resource that a guard protects: it refuses the write
// of a holder that was stopped, lost its lease and goes on when it wakes.
// redisfence does it in Redis, sqlfence in PostgreSQL, MySQL, MariaDB and
// SQLite; what they share is here.
//
// # How it works
//
// Each turn of a guard has a fencing token, [guard.FencingToken], that is
// higher than those of all turns on its key before. The resource keeps the
// highest one that it has seen, next to the data, and refuses a lower one. The
// same token passes again, for a turn may write more than once.
//
// # What to get right
//
//   - Check and write in one step: the same script, the same transaction. What is checked before may be late when it
//     is written.
//   - Check when you read, too, if you write what you have reckoned from it. Else a late holder still writes between the
//     read and the write of the next one, who then overwrites that. A relative write, n = n - 1, does without the read.
//   - One key of the guard, one fence. Tokens of different keys say nothing about each other, and what one key protects
//     with two fences is protected as two things. Under Guard.DoAll each key's token is that of guard.LeaseOf(ctx, key).
//   - The fence lives as long as a late writer may come, and no shorter than the data. It is as durable as the store: what a
//     failover loses of the data, it loses of the fence.
//   - It is no idempotency. A write without an answer may have been done; the same token passes again.
//
// Use guard.WithFencing: the token then comes with the key, without a request
// of its own, and keeps rising across a failover of Redis that lost the lock.
package fence

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-lockguard/guard"
)

// ErrLateWrite says that the resource has seen a higher fencing token: the
// lease was lost and somebody else has had a turn since. Nothing was written,
// and there is nothing to repeat with this token. [LateWriteError] has detail.
var ErrLateWrite = errors.New("fence: late write refused")

// LateWriteError is an [ErrLateWrite] with the token that was refused and the
// highest that was seen. Its text does not name the key.
type LateWriteError struct{ Token, Newest uint64 }

func (e *LateWriteError) Error() string {
	return fmt.Sprintf("%v: fencing token %d is lower than %d", ErrLateWrite, e.Token, e.Newest)
}

// Is makes a LateWriteError an [ErrLateWrite].
func (e *LateWriteError) Is(target error) bool { return target == ErrLateWrite }

// CheckToken returns an error that Is guard.ErrInvalidOption for a token that
// no guard gives and no store keeps: 0, which is what there is without a lease,
// and beyond a signed 64-bit number. It is for authors of checks; redisfence
// and sqlfence call it.
func CheckToken(token uint64) error {
	if token == 0 || token > math.MaxInt64 {
		return fmt.Errorf("%w: %d is no fencing token: look at the error of guard.FencingToken",
			guard.ErrInvalidOption, token)
	}
	return nil
}
