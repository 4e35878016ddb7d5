package httpguard

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/sqltx"
)

// tableKey returns the key of a row for key. A hash stands for a key that is
// too long or not of UTF-8.
func tableKey(key string) string {
	if len(key) <= sqlresult.MaxKey && utf8.ValidString(key) && !strings.Contains(key, "\x00") {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// keep keeps the answer of a request where the middleware keeps it.
func (i *Idempotent) keep(
	ctx context.Context, key string, o guard.OnceOptions, fn func(context.Context) ([]byte, error),
) (guard.OnceResult, error) {
	if i.once == nil {
		return i.guard.OnceBytes(ctx, key, o, fn)
	}
	r, err := i.once(ctx, i.guard, tableKey(key), o, fn)
	if final := (*guard.FinalError)(nil); errors.As(err, &final) && !errors.Is(err, guard.ErrNotRecorded) {
		if r.Record, err = base64.StdEncoding.DecodeString(final.Text); err != nil {
			err = fmt.Errorf("%w: the key has the final error of another function", guard.ErrResultGone)
		}
	}
	return r, err
}

// ending is the end of a handler that has given the answer a, of which kept is
// the record. The work of one that has failed is rolled back. A final error
// does that, and is kept in a transaction of its own.
func (i *Idempotent) ending(a Answer, kept []byte) ([]byte, error) {
	if i.once == nil || a.Status < 400 {
		return kept, nil
	}
	return nil, guard.Final("answer", errors.New(base64.StdEncoding.EncodeToString(kept)))
}

// committed answers a request whose transaction has ended. committed returns
// false if the answer is that of another request, which is to be replayed.
//
// What x.Next has held back is sent only if it was committed, or if all was
// rolled back because of it. Otherwise the client must ask again, unless the
// database has refused the work and would again: then err is the service's own.
func (i *Idempotent) committed(
	x HeldExchange, key string, ran bool, r guard.OnceResult, err error,
) (done bool, _ error) {
	switch {
	case ran && r.Fresh && (err == nil || errors.Is(err, errNotForKeeping)):
		x.Send()
		return true, nil
	case err == nil, errors.Is(err, guard.ErrOtherPayload), errors.Is(err, guard.ErrResultGone):
		return false, nil
	case errors.Is(err, guard.ErrNotAcquired), errors.Is(err, guard.ErrLeaseLost), errors.Is(err, guard.ErrClosed),
		errors.Is(err, guard.ErrInvalidOption), errors.Is(err, guard.ErrInvalidKey):
		return true, err
	}
	if refusal := (*sqltx.RefusedError)(nil); errors.As(err, &refusal) && !refusal.Again {
		i.logRefused(x, key, err)
		return true, err
	}
	i.logNotCommitted(x, key, err)
	return true, fmt.Errorf("%w: %w", guard.ErrUnavailable, err) // of the database
}
