// Package fence is for the resource that a guard protects. It refuses the write
// of a late holder. A holder is late if it was stopped, lost its lease and
// continues when it wakes. Package redisfence does this in Redis. Package
// sqlfence does it in PostgreSQL, MySQL, MariaDB and SQLite, and package pgxtx
// for pgx. This package has
// the parts that both share.
//
// # How it works
//
// Each turn of a guard has a fencing token, see [guard.FencingToken]. The token
// is higher than the tokens of all earlier turns on its key. The resource keeps
// the highest token that it has seen next to the data, and refuses a lower one.
// The same token passes again, because a turn may write more than once.
//
// # What to get right
//
//   - Check and write in one step, which is one script or one transaction. A
//     token that is checked earlier may be late by the time of the write.
//   - Check when you read, too, if what you write is computed from what you
//     read. Otherwise a late holder can still write between the read and the
//     write of the next holder, which then overwrites the late write. A
//     relative write such as n = n - 1 needs no read.
//   - Use one fence for one key of the guard. Tokens of different keys cannot
//     be compared. Data that one key protects with two fences is protected as
//     two separate things. Under Guard.DoAll each key's token is that of
//     guard.LeaseOf(ctx, key).
//   - The fence must live as long as a late writer may come, and at least as
//     long as the data. It is as durable as the store. If a failover loses
//     writes to the data, it loses them to the fence as well.
//   - A fence does not make requests idempotent. A write without an answer may
//     have been done, and the same token passes again.
//
// Use guard.WithFencing. The token then comes with the key and needs no request
// of its own. It keeps rising across a failover of Redis that lost the lock.
package fence

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-lockguard/guard"
)

// ErrLateWrite says that the resource has seen a higher fencing token. The
// lease was lost, and somebody else has had a turn since. Nothing was written,
// and there is nothing to repeat with this token. [LateWriteError] has the
// details.
var ErrLateWrite = errors.New("fence: late write refused")

// LateWriteError is an [ErrLateWrite] with the refused token and the highest
// token seen. Its text does not name the key.
type LateWriteError struct{ Token, Newest uint64 }

func (e *LateWriteError) Error() string {
	return fmt.Sprintf("%v: fencing token %d is lower than %d", ErrLateWrite, e.Token, e.Newest)
}

// Is makes a LateWriteError an [ErrLateWrite].
func (e *LateWriteError) Is(target error) bool { return target == ErrLateWrite }

// CheckToken returns an error that Is guard.ErrInvalidOption for a token that
// no guard gives and no store keeps. Such a token is 0, the value without a
// lease, or larger than a signed 64-bit number. CheckToken is for authors of
// checks. redisfence and sqlfence call it.
func CheckToken(token uint64) error {
	if token == 0 || token > math.MaxInt64 {
		return fmt.Errorf("%w: %d is no fencing token: look at the error of guard.FencingToken",
			guard.ErrInvalidOption, token)
	}
	return nil
}
