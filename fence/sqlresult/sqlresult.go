// Package sqlresult keeps the result of a function in the database that the
// function writes to, in the same transaction. It supports PostgreSQL, MySQL,
// MariaDB and SQLite, through database/sql.
//
//	results, err := sqlresult.New(sqlresult.PostgreSQL, "results") // at start-up
//
//	receipt, err := sqlresult.Once(ctx, g, db, results, key, 24*time.Hour,
//		func(ctx context.Context, tx *sql.Tx) (Receipt, error) {
//			...
//		})
//
// What the function writes through its transaction happens exactly once per key
// and ttl, also after a crash, a lost lease or an outage of the lock's store.
// The primary key of the table decides. The lease only spares the others the
// work. What the function does elsewhere, such as a call of another service,
// may happen again: the database knows nothing of it.
//
// Compare guard.Once, which keeps results in the store of the locks. There the
// function runs again after a crash.
//
// GORM works within the transaction that the function gets, and a handler
// behind lockmw.InTransaction within that of [TxFrom]:
//
//	orm, err := gorm.Open(mysql.New(mysql.Config{Conn: tx, SkipInitializeWithVersion: true}),
//		&gorm.Config{SkipDefaultTransaction: true})
package sqlresult

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltx"
)

// Once returns the result that t has for key. If it has none, Once runs fn in a
// transaction of db while it holds key, as [guard.Guard.Do] does, and commits
// what fn has written together with its result. The result is kept for ttl,
// from the end of fn.
//
// Once ends the transaction. fn must not, and it must use the ctx that it gets.
// If fn returns an error, all is rolled back, and the next call runs fn. An
// error that [guard.Final] made is kept as a result, in a transaction of its
// own after the rollback. If it cannot be kept, guard.ErrNotRecorded stands
// beside it.
//
// If fn did not run and there is no result, the error is one of Do's, or the
// database's, of which guard.Ran knows nothing. If the database refuses a
// statement, nothing is committed and there is no result. The same is true of
// COMMIT, which a deferred constraint or a serialization failure refuses. The
// error is then the driver's. Once repeats nothing: call it again after a
// deadlock or a serialization failure.
//
// fn must return the error of a deadlock. MySQL rolls back the transaction and
// carries out the statements that come after it, as SQLite does where its file
// is full. Once then keeps no result and returns an error, whatever fn returns.
//
// If COMMIT gives no answer, Once looks for the result. If it finds none, it
// returns fn's result with guard.ErrNotRecorded: the transaction may yet be
// committed, and a later call finds out. A lease that is lost after the commit
// is no error.
//
// The result is written as JSON, whatever guard.WithCodec says, and its length
// has no limit but the database's. [OnceBytes] is for another form.
//
// key has at most 255 bytes, else Once returns guard.ErrInvalidKey. It returns
// guard.ErrInvalidOption for a ttl below 1 ms. A nil g is the default guard.
// Once blocks as Do does, and for the statements of the database. It is safe
// for concurrent use.
func Once[T any](ctx context.Context, g *guard.Guard, db *sql.DB, t *Table, key string, ttl time.Duration,
	fn func(ctx context.Context, tx *sql.Tx) (T, error),
) (T, error) {
	if fn == nil {
		var none T
		return none, sqltx.ErrNoFunc
	}
	return sqltx.Once(ctx, g, sqltx.DBOf(db), t.inner(), key, ttl,
		func(ctx context.Context, tx sqltx.Tx) (T, error) { return fn(ctx, tx.(sqltx.SQLTx).Tx) })
}

// OnceBytes is [Once] for bytes. OnceBytes says whether the result is that of
// this call. If fn returns nil, nothing is kept, and what it has written is
// rolled back. The error is guard.ErrOtherPayload if the result is that of a
// call with another fingerprint. Other errors are those of Once.
func OnceBytes(ctx context.Context, g *guard.Guard, db *sql.DB, t *Table, key string, o guard.OnceOptions,
	fn func(ctx context.Context, tx *sql.Tx) ([]byte, error),
) (guard.OnceResult, error) {
	if fn == nil {
		return guard.OnceResult{}, sqltx.ErrNoFunc
	}
	return sqltx.OnceBytes(ctx, g, sqltx.DBOf(db), t.inner(), key, o,
		func(ctx context.Context, tx sqltx.Tx) ([]byte, error) { return fn(ctx, tx.(sqltx.SQLTx).Tx) })
}

// TxFrom returns the transaction of the function that runs with ctx, and
// reports whether there is one. It is for functions that do not get it, such as
// the handlers behind lockmw.InTransaction. It is safe for concurrent use, and
// the transaction is as safe as any.
func TxFrom(ctx context.Context) (*sql.Tx, bool) {
	t, found := sqltx.TxFrom(ctx).(sqltx.SQLTx)
	return t.Tx, found
}

// OnceFunc is [guard.Guard.OnceBytes] for results that are kept in a
// transaction of what fn writes. An error of fn rolls that back, and one that
// [guard.Final] made is kept all the same. Package pgxtx makes a OnceFunc for
// lockmw.InTransactionOf.
type OnceFunc func(ctx context.Context, g *guard.Guard, key string, o guard.OnceOptions,
	fn func(ctx context.Context) ([]byte, error)) (guard.OnceResult, error)
