package sqltx

import (
	"errors"
	"reflect"
	"slices"
	"strings"
)

// RefusedError is an error with which a database has answered that it did not
// carry out a statement. After one at COMMIT nothing is committed. Any other
// error is silence: nobody knows what the database has done.
type RefusedError struct {
	Again bool  // the whole transaction may succeed if it begins anew
	Err   error // of the driver
}

func (r *RefusedError) Error() string { return r.Err.Error() }

// Unwrap returns Err.
func (r *RefusedError) Unwrap() error { return r.Err }

// judge returns err as a [*RefusedError] if the database has answered with it,
// and else err itself. No driver is imported here, so judge knows their errors
// by their shape.
func (d Dialect) judge(err error) error {
	code := map[Dialect]func(error) answer{PostgreSQL: ofPostgreSQL, MySQL: ofMySQL, SQLite: ofSQLite}[d]
	if a := find(err, code); a != silence {
		return &RefusedError{a == again, err}
	}
	return err
}

// find returns the first answer in err and in all that it wraps.
func find(err error, code func(error) answer) (a answer) {
	if err != nil {
		a = code(err)
	}
	if a != silence {
		return a
	}
	switch e := err.(type) { //nolint:errorlint // each error of the tree by itself, for errors.As knows no shapes
	case interface{ Unwrap() error }:
		return find(e.Unwrap(), code)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if a = find(inner, code); a != silence {
				return a
			}
		}
	}
	return silence
}

// answer is what an error says about a statement.
type answer int

const (
	silence answer = iota // nothing
	never                 // it is refused, and would be again
	again                 // it is refused, and may succeed later
)

// stateSilent are beginnings of SQLSTATEs that do not say what was done: of
// connections, of a statement whose end is unknown, and of a server that goes
// away. A pooler also says the last of a server that may be at work.
var stateSilent = []string{"08", "40003", "57P"}

// stateAgain are beginnings of SQLSTATEs of what may pass: deadlocks and
// serialization failures, a lack of memory, space or connections, an old
// primary, limits of time, a lock.
var stateAgain = []string{"40", "53", "25006", "25P03", "25P04", "55P03", "57014", "70100"}

func ofState(state string) answer {
	begins := func(with string) bool { return strings.HasPrefix(state, with) }
	switch {
	case len(state) != 5, slices.ContainsFunc(stateSilent, begins):
		return silence
	case slices.ContainsFunc(stateAgain, begins) && state != "40002": // an integrity constraint
		return again
	}
	return never
}

// ofPostgreSQL knows the errors of pgx and lib/pq.
func ofPostgreSQL(err error) answer {
	if e, ok := err.(interface{ SQLState() string }); ok {
		return ofState(e.SQLState())
	}
	return silence
}

// mysqlAgain are the refusals that may pass and whose SQLSTATE does not say so:
// record changed, disk full, no memory, COMMIT failed (Galera), lock wait
// timeout, read-only, no savepoint (see unbroken), execution time exceeded,
// NOWAIT.
var mysqlAgain = []uint64{1020, 1021, 1037, 1038, 1041, 1180, 1205, 1290, 1305, 1836, 3024, 3572}

// ofMySQL knows the error of go-sql-driver/mysql, a struct with a Number and an
// SQLState. The numbers from 2000 are those of clients, and the ones from 9000
// are ProxySQL's: a proxy says by them that it has lost the server.
func ofMySQL(err error) answer {
	v := reflect.Indirect(reflect.ValueOf(err))
	if v.Kind() != reflect.Struct {
		return silence
	}
	number, state := v.FieldByName("Number"), v.FieldByName("SQLState")
	if !number.IsValid() || !number.CanUint() || !state.IsValid() || state.Type() != reflect.TypeFor[[5]byte]() {
		return silence
	}
	n := number.Uint()
	switch {
	case n == 0, n/1000 == 2, n/1000 == 9:
		return silence
	case slices.Contains(mysqlAgain, n):
		return again
	}
	if s := state.Interface().([5]byte); s != [5]byte{} {
		return ofState(string(s[:]))
	}
	return never
}

// sqliteAgain are the codes of SQLite that may pass: ABORT, BUSY, LOCKED,
// NOMEM, INTERRUPT, FULL, PROTOCOL.
var sqliteAgain = []int64{4, 5, 6, 7, 9, 13, 15}

// sqliteIO says that the file could not be read or written.
const sqliteIO = 10

// ofSQLite knows the errors of modernc.org/sqlite and mattn/go-sqlite3, whose
// Code is a method or a field.
func ofSQLite(err error) answer {
	var code int64
	if e, ok := err.(interface{ Code() int }); ok {
		code = int64(e.Code())
	} else if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
		if f := v.FieldByName("Code"); f.IsValid() && f.CanInt() {
			code = f.Int()
		}
	}
	switch code &= 0xff; { // the rest of an extended code is the detail
	case code == 0, code == sqliteIO:
		return silence
	case slices.Contains(sqliteAgain, code):
		return again
	}
	return never
}

// refused reports whether nothing of a transaction that has ended with err is
// committed: the database has refused it, or COMMIT was not sent.
func refused(err error) bool {
	unclear, said := (*commitError)(nil), (*RefusedError)(nil)
	return !errors.As(err, &unclear) || errors.As(err, &said)
}
