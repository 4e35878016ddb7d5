package postgreslocker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/locker"
)

// Inspect returns the owner of key, the claims that wait for it and its record.
// It takes one request.
func (l *Locker) Inspect(ctx context.Context, key string) (s locker.KeyState, err error) {
	if err := l.gate.Enter(); err != nil {
		return s, err
	}
	defer l.gate.Leave()
	states, err := l.states(ctx, l.sql.one, []byte(key))
	if err == nil && len(states) == 1 {
		s = states[0]
	}
	s.Key = key
	return s, err
}

// List returns the same for every key that is owned or waited for. It takes one
// request for each 200 keys.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		after := []byte{}
		for {
			page, err := l.page(ctx, after)
			if err != nil {
				yield(locker.KeyState{}, err)
				return
			}
			for _, s := range page {
				if (s.Held || s.Waiting > 0) && !yield(s, nil) {
					return
				}
			}
			if len(page) < listMax {
				return
			}
			after = []byte(page[len(page)-1].Key)
		}
	}
}

func (l *Locker) page(ctx context.Context, after []byte) ([]locker.KeyState, error) {
	if err := l.gate.Enter(); err != nil {
		return nil, err
	}
	defer l.gate.Leave()
	return l.states(ctx, l.sql.list, after)
}

// ForceRelease ends the hold of owner on key, and hands the key on. It takes
// one request.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if _, err := base64.RawURLEncoding.DecodeString(owner); err != nil || len(owner) != locker.OwnerLen {
		return invalid("%q is no owner id", owner)
	}
	if err := l.gate.Enter(); err != nil {
		return err
	}
	defer l.gate.Leave()
	_, err := l.release(ctx, ending{key: key, owner: owner, flags: flagTell}, nil)
	return err
}

func (l *Locker) states(ctx context.Context, sql string, key []byte) (states []locker.KeyState, err error) {
	err = l.retry(ctx, func() error {
		return l.aside(ctx, func(conn *pgxpool.Conn) error {
			rows, err := conn.Query(ctx, sql, key)
			if err != nil {
				return err
			}
			states, err = pgx.CollectRows(rows, scanState)
			return err
		})
	})
	return states, translate(err)
}

func scanState(r pgx.CollectableRow) (s locker.KeyState, err error) {
	var (
		key, waiters []byte
		holder       string
		remains      int64
		named        []struct{ O, H string }
		shares       []byte
		rest         int64
	)
	if err := r.Scan(&key, &s.Owner, &holder, &remains, &s.Waiting, &waiters, &shares, &s.Record.Size,
		&rest); err != nil {
		return s, err
	}
	s.Key, s.Record.Remaining = string(key), microseconds(rest)
	switch s.Held = s.Owner != "" && remains > 0; {
	case s.Held && shares != nil:
		s.Remaining = microseconds(remains)
		if err := describe(&s, shares); err != nil {
			return s, err
		}
	case s.Held:
		s.Holder, s.Remaining = holderOf(holder), microseconds(remains)
	default:
		s.Owner = ""
	}
	if err := json.Unmarshal(waiters, &named); err != nil {
		return s, errors.New("the queue cannot be read")
	}
	for _, w := range named {
		s.Waiters = append(s.Waiters, locker.Waiter{Owner: w.O, Holder: holderOf(w.H)})
	}
	return s, nil
}
