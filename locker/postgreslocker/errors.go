package postgreslocker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// errReadOnly is the error of a read from a server that takes no writes.
var errReadOnly error = &pgconn.PgError{Code: "25006", Message: "the transactions are read-only"}

var errUnsent = fmt.Errorf("%w: postgreslocker: %w: it waited for its turn", locker.ErrUnavailable, locker.ErrUnsent)

func invalid(format string, args ...any) error {
	return lockerkit.Invalid("postgreslocker", format, args...)
}

// again reports whether a request may be sent a second time: the server asks
// for it, or has not seen it.
func again(err error) bool {
	switch code(err) {
	case "":
		return pgconn.SafeToRetry(err)
	case "40001", "40P01", "23505": // serialization failure, deadlock, somebody has just made the same row
		return true
	}
	return false
}

// code returns the SQLSTATE of a refusal, or "".
func code(err error) string {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return ""
}

// final reports whether a new try cannot help: rights, names, passwords, and
// data that the server cannot keep.
func final(code string) bool {
	return slices.Contains([]string{"42", "28", "3D", "3F", "22", "0A"}, code[:min(2, len(code))])
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
		return fmt.Errorf("%w: postgreslocker: %w", locker.ErrUnavailable, unanswered(err))
	case again(err): // nothing was done
		return fmt.Errorf("%w: postgreslocker: %s (%s): %w", locker.ErrUnavailable, refusal.Message, refusal.Code,
			locker.ErrUnsent)
	case !final(refusal.Code):
		return fmt.Errorf("%w: postgreslocker: %s (%s)%s", locker.ErrUnavailable, refusal.Message, refusal.Code,
			advice(refusal))
	}
	return fmt.Errorf("postgreslocker: %s (%s)%s", refusal.Message, refusal.Code, advice(refusal))
}

// errOthers is with an error that is no silence of the server.
var errOthers = errors.New("the server answers other requests: does a transaction lock the row?")

// Unanswered implements [rowlocker.Explaining].
func (r *rows) Unanswered(since time.Time, _ error) error {
	if r.server.answers(since) {
		return fmt.Errorf("%w: postgreslocker: no answer in time: %w", locker.ErrUnavailable, errOthers)
	}
	return fmt.Errorf("%w: postgreslocker: %w: no answer in time", locker.ErrUnavailable, locker.ErrSilent)
}

// unanswered describes an err that is no answer of the server, without the
// server's address, which has its user.
func unanswered(err error) error {
	others := errors.Is(err, errOthers)
	if connect := (*pgconn.ConnectError)(nil); errors.As(err, &connect) {
		err = fmt.Errorf("cannot connect: %w", connect.Unwrap())
	}
	if lockerkit.Silent(err) && !others {
		return fmt.Errorf("%w: %w", locker.ErrSilent, err)
	}
	return err
}

// advices are what to do about a refusal, by its code.
var advices = map[string]string{
	"25006": lockerkit.ReadOnly,
	"28000": wrongUser,
	"28P01": wrongUser,
	"3D000": "there is no such database: create it, or correct its name in the address",
	"3F000": "create the schema, which Migrate does not",
	"42P01": noSchema,
	"42703": "the table is not one that Schema makes: drop it while no process uses it, and call Migrate",
	"42501": "give the role the rights that the documentation of package postgreslocker lists",
	"42P05": noPooling, // a prepared statement is there already
	"26000": noPooling, // or is not there
	"53300": "the server has no connection left: raise max_connections, or put a pooler in front of it",
}

const (
	wrongUser = "the user or its password is wrong, or pg_hba.conf does not let it in"
	noSchema  = "the schema is missing: call Migrate, or run the SQL of Schema with your own tool; " +
		"or the role lacks USAGE on it, which Check tells"
	noPooling = "if a pooler is in between, pass WithPooler, or pooler=true in the address"
)

// advice says what to do about a refusal, behind ": ".
func advice(refusal *pgconn.PgError) string {
	text := advices[refusal.Code]
	switch {
	case text == "":
		return ""
	case strings.Contains(refusal.Message, "row-level security"):
		text = "row-level security keeps the role from its rows: ALTER TABLE ... DISABLE ROW LEVEL SECURITY"
	case refusal.Code == "42501" && strings.Contains(refusal.Message, "for schema"):
		text = "GRANT USAGE ON SCHEMA to the role, and CREATE if it is to run Migrate"
	}
	return ": " + text
}
