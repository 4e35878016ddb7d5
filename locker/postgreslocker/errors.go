package postgreslocker

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

var (
	errNotOwner = fmt.Errorf("%w: the key is not ours any more", locker.ErrLeaseLost)
	errUnsent   = fmt.Errorf("%w: postgreslocker: %w: it waited for its turn", locker.ErrUnavailable, locker.ErrUnsent)
	errTooLate  = fmt.Errorf("%w: postgreslocker: %w: no answer in time", locker.ErrUnavailable, locker.ErrSilent)
)

func invalid(format string, args ...any) error {
	return lockerkit.Invalid("postgreslocker", format, args...)
}

// again reports whether a request may be sent a second time: the server asks
// for it, or has not seen it.
func again(err error) bool {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.Code == "40001" || refusal.Code == "40P01" // serialization failure, deadlock
	}
	return pgconn.SafeToRetry(err)
}

// final reports whether a new try cannot help: rights, names, passwords, and
// data that the server cannot keep.
func final(code string) bool {
	switch code[:min(2, len(code))] {
	case "42", "28", "3D", "3F", "22", "0A":
		return true
	}
	return false
}

// translate returns the error of a request. Of the server's refusal it shows
// the message and the code only, because the detail may name a key.
func translate(err error) error {
	var refusal *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUnsent):
		return err
	case !errors.As(err, &refusal):
		return fmt.Errorf("%w: postgreslocker: %w", locker.ErrUnavailable, withoutAddress(err))
	case !final(refusal.Code):
		return fmt.Errorf("%w: postgreslocker: %s (%s)%s", locker.ErrUnavailable, refusal.Message, refusal.Code,
			advice(refusal.Code))
	}
	return fmt.Errorf("postgreslocker: %s (%s)%s", refusal.Message, refusal.Code, advice(refusal.Code))
}

// withoutAddress returns err, or what caused it if err describes the server's
// address with its user.
func withoutAddress(err error) error {
	if connect := (*pgconn.ConnectError)(nil); errors.As(err, &connect) {
		return fmt.Errorf("%w: cannot connect: %w", locker.ErrSilent, connect.Unwrap())
	}
	return fmt.Errorf("%w: %w", locker.ErrSilent, err)
}

// advice says what to do about a refusal.
func advice(code string) string {
	switch code {
	case "42P01", "42883", "3F000":
		return ": the schema is missing: call Migrate, or run the SQL of Schema with your own tool"
	case "42501":
		return ": give the role the rights that the documentation of package postgreslocker lists"
	case "42P05", "26000": // a prepared statement is there already, or is not there
		return ": if a pooler is in between, pass WithPooler"
	}
	return ""
}

// unclear returns err for a holder: a refusal leaves as much in doubt as
// silence does.
func unclear(err error) error {
	if err == nil || errors.Is(err, locker.ErrLeaseLost) || errors.Is(err, locker.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", locker.ErrUnavailable, err)
}

// refused reports whether the server has refused a request, and so done
// nothing.
func refused(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal)
}
