package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

// A mute is a database that does not answer COMMIT. After that it refuses to
// read.
type mute struct{ later error }

func (m *mute) Row(context.Context, string, []any, ...any) error {
	if m.later != nil {
		return m.later
	}
	return sql.ErrNoRows
}

func (*mute) Exec(context.Context, string, ...any) (int64, error) { return 1, nil }
func (m *mute) Begin(context.Context) (Tx, error)                 { return m, nil }
func (*mute) Rollback()                                           {}

func (m *mute) Commit(context.Context) error {
	m.later = stateError("42501") // insufficient privilege
	return io.ErrUnexpectedEOF
}

// The answer to the look for a result says nothing of a COMMIT without one.
func TestARefusedLookIsNoRefusalOfTheWork(t *testing.T) {
	table, err := NewResults(PostgreSQL, "results")
	if err != nil {
		t.Fatal(err)
	}
	r, err := OnceBytes(t.Context(), guardtest.New(t).Guard, &mute{}, table, "k", guard.OnceOptions{TTL: time.Hour},
		func(context.Context, Tx) ([]byte, error) { return []byte("paid"), nil })
	if said := (*RefusedError)(nil); errors.As(err, &said) || !errors.Is(err, guard.ErrNotRecorded) ||
		!errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, stateError("42501")) || string(r.Record) != "paid" {
		t.Errorf("got %q, %v", r.Record, err)
	}
}
