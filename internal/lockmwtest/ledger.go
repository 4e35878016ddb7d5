package lockmwtest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/go-lockguard/guard"
)

// Ledger is a database in memory with the answers of requests, and a number
// that their handlers add to. Its zero value is ready for use, and it is safe
// for concurrent use.
type Ledger struct {
	Refuse error // of COMMIT, unless nil

	mu   sync.Mutex // guards what follows
	sum  int        // of what is committed
	rows map[string]row
}

// row is the answer of a request.
type row struct {
	mark, record []byte
	final        *guard.FinalError // instead of record
}

// Tx is a transaction of a [Ledger]. Only its handler uses it.
type Tx struct{ sum int }

type txKey struct{}

// TxFrom returns the transaction of the handler that runs with ctx, or nil.
func TxFrom(ctx context.Context) *Tx {
	tx, _ := ctx.Value(txKey{}).(*Tx)
	return tx
}

// Add adds 1 to the sum, if the transaction is committed. Without a transaction
// it panics.
func (tx *Tx) Add() { tx.sum++ }

// Sum returns the sum of what is committed.
func (l *Ledger) Sum() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum
}

// Once implements sqlresult.OnceFunc.
func (l *Ledger) Once(ctx context.Context, g *guard.Guard, key string, o guard.OnceOptions,
	fn func(ctx context.Context) ([]byte, error),
) (guard.OnceResult, error) {
	l.mu.Lock()
	kept, found := l.rows[key]
	l.mu.Unlock()
	switch {
	case found && !bytes.Equal(kept.mark, o.Fingerprint):
		return guard.OnceResult{}, guard.ErrOtherPayload
	case found && kept.final != nil:
		return guard.OnceResult{}, kept.final
	case found:
		return guard.OnceResult{Record: kept.record}, nil
	}
	tx, fresh := new(Tx), row{mark: o.Fingerprint}
	err := g.Do(context.WithValue(ctx, txKey{}, tx), key, func(ctx context.Context) (err error) {
		fresh.record, err = fn(ctx)
		return err
	})
	errors.As(err, &fresh.final)
	if err == nil {
		err = l.Refuse
	}
	if err == nil || fresh.final != nil {
		l.commit(key, fresh, tx)
	}
	return guard.OnceResult{Record: fresh.record, Fresh: true}, err
}

func (l *Ledger) commit(key string, fresh row, tx *Tx) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows = map[string]row{}
	}
	l.rows[key] = fresh
	if fresh.final == nil {
		l.sum += tx.sum
	}
}
