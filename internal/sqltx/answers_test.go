package sqltx

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
)

// The errors of drivers, by their shapes.
type (
	stateError string // pgx, lib/pq

	mysqlError struct { // go-sql-driver/mysql
		Number   uint16
		SQLState [5]byte
	}

	codeError int // modernc.org/sqlite

	fieldError struct{ Code, ExtendedCode int } // mattn/go-sqlite3
)

func (e stateError) SQLState() string { return string(e) }
func (e stateError) Error() string    { return string(e) }
func (e *mysqlError) Error() string   { return strconv.FormatUint(uint64(e.Number), 10) }
func (e codeError) Code() int         { return int(e) }
func (e codeError) Error() string     { return strconv.Itoa(int(e)) }
func (e fieldError) Error() string    { return strconv.Itoa(e.Code) }

func TestAnAnswerIsToldFromSilence(t *testing.T) {
	my := func(number uint16, state string) error {
		e := &mysqlError{Number: number}
		copy(e.SQLState[:], state)
		return e
	}
	for _, row := range []struct {
		dialect Dialect
		err     error
		want    answer
	}{
		{PostgreSQL, stateError("23505"), never},
		{PostgreSQL, stateError("40001"), again},
		{PostgreSQL, stateError("40P01"), again},
		{PostgreSQL, stateError("40002"), never},
		{PostgreSQL, stateError("40003"), silence},
		{PostgreSQL, stateError("25P02"), never},
		{PostgreSQL, stateError("25P03"), again},
		{PostgreSQL, stateError("25006"), again},
		{PostgreSQL, stateError("08006"), silence},
		{PostgreSQL, stateError("57P01"), silence},
		{PostgreSQL, stateError("57014"), again},
		{PostgreSQL, stateError(""), silence},
		{PostgreSQL, io.ErrUnexpectedEOF, silence},
		{PostgreSQL, driver.ErrBadConn, silence},
		{PostgreSQL, context.DeadlineExceeded, silence},
		{PostgreSQL, nil, silence},
		{PostgreSQL, fmt.Errorf("%w", errors.Join(io.EOF, fmt.Errorf("%w", stateError("23505")))), never},
		{MySQL, my(1062, "23000"), never},
		{MySQL, my(1213, "40001"), again},
		{MySQL, my(1205, "HY000"), again},
		{MySQL, my(1180, "HY000"), again},
		{MySQL, my(1047, "08S01"), silence}, // Galera: not ready
		{MySQL, my(1053, "08S01"), silence},
		{MySQL, my(2013, "HY000"), silence},
		{MySQL, my(9001, "HY000"), silence},
		{MySQL, my(1290, ""), again},
		{MySQL, my(1062, ""), never},
		{MySQL, my(0, ""), silence},
		{MySQL, (*mysqlError)(nil), silence},
		{MySQL, struct{ error }{io.EOF}, silence},
		{SQLite, codeError(787), never}, // a foreign key
		{SQLite, codeError(5), again},
		{SQLite, codeError(517), again}, // BUSY_SNAPSHOT
		{SQLite, codeError(266), silence},
		{SQLite, fieldError{Code: 19, ExtendedCode: 787}, never},
		{SQLite, fieldError{Code: 6}, again},
		{SQLite, io.EOF, silence},
	} {
		err := row.dialect.judge(row.err)
		got := silence
		if refusal := (*RefusedError)(nil); errors.As(err, &refusal) {
			got = map[bool]answer{false: never, true: again}[refusal.Again]
		}
		if got != row.want {
			t.Errorf("dialect %d, %v: %#v, want %d", row.dialect, row.err, err, row.want)
		}
		if !errors.Is(err, row.err) {
			t.Errorf("%v is lost in %v", row.err, err)
		}
	}
}
