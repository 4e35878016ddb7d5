package sqltx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard"
)

// Once is OnceBytes for a result that is written as JSON.
func Once[T any](ctx context.Context, g *guard.Guard, db DB, t *Results, key string, ttl time.Duration,
	fn func(ctx context.Context, tx Tx) (T, error),
) (T, error) {
	var result, none T
	r, err := OnceBytes(ctx, g, db, t, key, guard.OnceOptions{TTL: ttl},
		func(ctx context.Context, tx Tx) (value []byte, err error) {
			if result, err = fn(ctx, tx); err != nil {
				return nil, err
			}
			if value, err = json.Marshal(result); err != nil {
				return nil, fmt.Errorf("sqlresult: write the result, all is rolled back: %w", err)
			}
			return value, nil
		})
	switch {
	case r.Fresh:
		return result, err
	case err != nil:
		return none, err
	}
	var kept T // not result, which fn may have filled here
	if err := json.Unmarshal(r.Record, &kept); err != nil {
		return none, fmt.Errorf("%w: sqlresult: read the result: %w", guard.ErrResultGone, err)
	}
	return kept, nil
}

// ErrNoFunc says that there is no function.
var ErrNoFunc = fmt.Errorf("%w: sqlresult: the function is nil", guard.ErrInvalidOption)

// OnceBytes returns the result that t has for key, or runs fn in a transaction
// of db. The public packages say all of it.
func OnceBytes(ctx context.Context, g *guard.Guard, db DB, t *Results, key string, o guard.OnceOptions,
	fn func(ctx context.Context, tx Tx) ([]byte, error),
) (guard.OnceResult, error) {
	c := call{db: db, table: t, key: key, options: o, fn: fn}
	if err := c.check(); err != nil {
		return guard.OnceResult{}, err
	}
	r, found, err := t.Recall(ctx, db, key)
	if err != nil {
		return guard.OnceResult{}, err
	}
	if found {
		err := c.takeOver(r)
		return c.result, err
	}
	err = g.Do(context.WithValue(ctx, callKey{}, &c), key, func(ctx context.Context) error {
		c.err = c.runFunc(ctx)
		return c.err
	})
	if c.done { // whatever became of the lease
		err = c.err
	}
	return c.result, err
}

// call is one call of [OnceBytes].
type call struct {
	db      DB
	table   *Results
	key     string
	options guard.OnceOptions
	fn      func(ctx context.Context, tx Tx) ([]byte, error)

	tx     Tx // of fn
	result guard.OnceResult
	err    error
	done   bool // the database has a result, which is result and err
}

type callKey struct{}

// TxFrom returns the transaction of the function that runs with ctx, or nil.
func TxFrom(ctx context.Context) Tx {
	if c, _ := ctx.Value(callKey{}).(*call); c != nil {
		return c.tx
	}
	return nil
}

// maxFingerprint is that of guard.OnceOptions.
const maxFingerprint = 32

func (c *call) check() error {
	switch {
	case c.db == nil || c.table == nil:
		return fmt.Errorf("%w: sqlresult: the database or the table is nil", guard.ErrInvalidOption)
	case len(c.options.Fingerprint) > maxFingerprint:
		return fmt.Errorf("%w: a fingerprint of %d bytes, want at most %d", guard.ErrInvalidOption,
			len(c.options.Fingerprint), maxFingerprint)
	}
	return check(c.key, c.options.TTL)
}

// takeOver makes r, which another call has kept, the result.
func (c *call) takeOver(r Record) error {
	c.done, c.result, c.err = true, guard.OnceResult{}, nil
	switch {
	case !bytes.Equal(r.Fingerprint, c.options.Fingerprint):
		c.err = guard.ErrOtherPayload
	case r.Final:
		var final finalRecord
		if c.err = json.Unmarshal(r.Value, &final); c.err == nil {
			c.err = &guard.FinalError{Code: final.Code, Text: final.Text}
		}
	default:
		c.result.Record = r.Value
	}
	return c.err
}

// finalRecord is the value of a final error.
type finalRecord struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// errNothing rolls back a transaction of which nothing is kept.
var errNothing = errors.New("nothing is kept")

// runFunc runs fn and commits its result, or takes over the result that another
// call has committed meanwhile.
func (c *call) runFunc(ctx context.Context) error {
	var other *Record
	ran := false
	err := c.table.in(ctx, c.db, func(tx Tx) error {
		r, found, err := c.table.first(ctx, tx, c.key)
		switch {
		case err != nil:
			return err
		case found:
			other = &r
			return ErrKept
		}
		c.tx, c.result.Fresh = tx, true
		if c.result.Record, err = c.fn(ctx, tx); err != nil {
			return err
		}
		if c.result.Record == nil {
			return errNothing
		}
		ran = true
		if err := c.table.unbroken(ctx, tx); err != nil {
			return err
		}
		return c.keep(ctx, tx, c.result.Record, false)
	})
	var final *guard.FinalError
	switch {
	case err == nil:
		c.done = true
		return nil
	case errors.Is(err, errNothing):
		return nil
	case other != nil:
		return c.takeOver(*other)
	case ran:
		return c.lookAgain(ctx, err)
	case errors.As(err, &final):
		return c.keepFinal(ctx, final, err)
	}
	return err
}

func (c *call) keep(ctx context.Context, tx Runner, value []byte, final bool) error {
	r := Record{Value: value, Fingerprint: c.options.Fingerprint, Final: final}
	return c.table.Keep(ctx, tx, c.key, r, c.options.TTL)
}

// keepFinal keeps a final error of fn, whose transaction has been rolled back.
func (c *call) keepFinal(ctx context.Context, final *guard.FinalError, err error) error {
	value, bad := json.Marshal(finalRecord{final.Code, final.Text})
	if bad == nil {
		bad = c.table.in(ctx, c.db, func(tx Tx) error { return c.keep(ctx, tx, value, true) })
	}
	if bad != nil {
		return c.lookAgain(ctx, fmt.Errorf("%w: %w: %w", guard.ErrNotRecorded, err, bad))
	}
	c.done = true
	return err
}

// lookLimit bounds the look for a result after an unclear end.
const lookLimit = 3 * time.Second

// lookAgain looks for a result after the transaction has ended with err. It may
// be that of another call, or that of this one if the answer to its COMMIT was
// lost. If there is none, fn's result stands only if nobody knows whether it is
// committed.
func (c *call) lookAgain(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	r, found, bad := c.table.Recall(ctx, c.db, c.key)
	if found {
		return c.takeOver(r)
	}
	if said := (*RefusedError)(nil); errors.As(bad, &said) {
		bad = said.Err // the look was refused, not the work
	}
	switch {
	case errors.Is(err, guard.ErrNotRecorded): // a final error, which stands beside it
	case refused(err):
		c.result = guard.OnceResult{}
	default:
		err = fmt.Errorf("%w: %w", guard.ErrNotRecorded, err)
	}
	return errors.Join(err, bad)
}
