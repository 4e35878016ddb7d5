package sqltx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltx"
)

// nested is a transaction that can begin one inside it, as that of bun.
type nested struct{ *sql.Tx }

func (nested) BeginTx(context.Context, *sql.TxOptions) (nested, error) { return nested{}, nil }

func TestOnlyATransactionIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		tx sqltx.Statements
		ok bool
	}{
		"a transaction":             {&sql.Tx{}, true},
		"one that can nest another": {nested{&sql.Tx{}}, true},
		"a database":                {&sql.DB{}, false},
		"a connection":              {&sql.Conn{}, false},
		"nothing":                   {nil, false},
		"a nil transaction":         {(*sql.Tx)(nil), false},
	} {
		if _, err := sqltx.InTx(c.tx); c.ok != (err == nil) || !c.ok && !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%s: %v, taken: want %v", name, err, c.ok)
		}
	}
}
