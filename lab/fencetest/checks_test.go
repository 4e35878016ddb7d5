package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
)

const token = 1_795_165_495_785_562 // of today

// checks are the checks that every fence must pass. Each returns the fault that
// it finds. The wrong variants must fail some of them.
var checks = map[string]func(ctx context.Context, s subject) error{
	"the first write passes, the same token passes again, a lower one is refused": risingTokens,
	"a transaction may check more than once":                                      twiceInOne,
	"a rollback leaves no trace":                                                  rollBack,
	"a refused check changes nothing, even if it is committed":                    commitRefused,
	"keys that differ have fences of their own":                                   ownFences,
	"a check waits for the transaction before it":                                 waits,
	"a check that waits ends with its context":                                    endsWithContext,
	"a late writer that has read before is refused":                               readFirst,
	"concurrent writers lose nothing":                                             concurrentWriters,
	"concurrent first writes pass":                                                concurrentFirst,
	"what is no token and no key is refused":                                      invalid,
}

func TestEveryDatabaseRefusesLateWrites(t *testing.T) {
	for _, d := range databases {
		for name, check := range checks {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				if err := check(t.Context(), create(t, ours, d)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func wantLate(err error, token, newest uint64) error {
	var late *fence.LateWriteError
	if !errors.Is(err, fence.ErrLateWrite) || !errors.As(err, &late) ||
		*late != (fence.LateWriteError{Token: token, Newest: newest}) {
		return fmt.Errorf("want ErrLateWrite for token %d after %d: %w", token, newest, err)
	}
	return nil
}

func risingTokens(ctx context.Context, s subject) error {
	var newest uint64
	for _, tok := range []uint64{
		1, 9, 10, 9, token, token, token - 1, token + 1, token, 1<<62 - 1, 1 << 62, 1 << 62,
		1<<62 - 1, math.MaxInt64, 1 << 62,
	} {
		err := s.pass(ctx, "stock:lamp", tok)
		if tok < newest {
			err = wantLate(err, tok, newest)
		}
		if err != nil {
			return fmt.Errorf("token %d after %d: %w", tok, newest, err)
		}
		newest = max(newest, tok)
	}
	return nil
}

func twiceInOne(ctx context.Context, s subject) error {
	return s.in(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
		return errors.Join(s.check(ctx, tx, "a", token), s.check(ctx, tx, "b", 5), s.check(ctx, tx, "a", token),
			s.check(ctx, tx, "a", token+1))
	})
}

func rollBack(ctx context.Context, s subject) error {
	undo := errors.New("undo")
	for _, first := range []bool{true, false} { // the row is made, or raised
		err := s.in(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
			return errors.Join(s.check(ctx, tx, "a", token+9), undo)
		})
		if !errors.Is(err, undo) || errors.Is(err, fence.ErrLateWrite) {
			return err
		}
		if err := s.pass(ctx, "a", token); err != nil {
			return fmt.Errorf("first write %v: after a rollback: %w", first, err)
		}
	}
	return nil
}

func commitRefused(ctx context.Context, s subject) error {
	if err := s.pass(ctx, "a", token); err != nil {
		return err
	}
	err := s.in(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
		return wantLate(s.check(ctx, tx, "a", token-1), token-1, token)
	})
	return errors.Join(err, wantLate(s.pass(ctx, "a", token-1), token-1, token), s.pass(ctx, "a", token))
}

func ownFences(ctx context.Context, s subject) error {
	var errs []error
	long := strings.Repeat("x", 254)
	keys := []string{"a", "A", "a ", "ä", "á", "a%20", "1", "01", long + "1", long + "2"}
	for i, key := range keys {
		errs = append(errs, s.pass(ctx, key, uint64(token-i)))
	}
	for i, key := range keys {
		errs = append(errs, s.pass(ctx, key, uint64(token-i)))
	}
	return errors.Join(errs...)
}

// waits starts a transaction that checks while another one that has checked is
// still open.
func waits(ctx context.Context, s subject) error {
	for _, level := range s.levels {
		for _, commit := range []bool{true, false} {
			key := fmt.Sprintf("%v %v", level, commit)
			if err := s.pass(ctx, key, 1); err != nil {
				return err
			}
			if err := overlap(ctx, s, level, key, commit); err != nil {
				return fmt.Errorf("%v, first one commits: %v: %w", level, commit, err)
			}
		}
	}
	return nil
}

func overlap(ctx context.Context, s subject, level sql.IsolationLevel, key string, commit bool) error {
	second := make(chan error, 1)
	err := s.in(ctx, level, func(tx *sql.Tx) error {
		if err := s.check(ctx, tx, key, token+1); err != nil {
			return err
		}
		go func() {
			second <- s.in(ctx, level, func(tx *sql.Tx) error { return s.check(ctx, tx, key, token) })
		}()
		select {
		case err := <-second:
			return fmt.Errorf("the second has not waited: %v", err) //nolint:errorlint // it may be nil
		// The second waits, or it would have returned by now. A variant is
		// caught in either case.
		case <-time.After(100 * time.Millisecond):
		}
		if commit {
			return nil
		}
		return errUndo
	})
	if err != nil && !errors.Is(err, errUndo) {
		return err
	}
	err = <-second
	switch {
	case again(err):
		return nil // refused, and may begin again
	case commit:
		return wantLate(err, token, token+1)
	}
	return err
}

var errUndo = errors.New("undo")

// endsWithContext starts a transaction that checks while a holder is stopped in
// the middle of its own. In SQLite the wait may last for busy_timeout, which is
// 5 s here.
func endsWithContext(ctx context.Context, s subject) error {
	err := s.in(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
		if err := s.check(ctx, tx, "a", token); err != nil {
			return err
		}
		began := time.Now()
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		err := s.in(short, sql.LevelDefault, func(tx *sql.Tx) error { return s.check(short, tx, "a", token+1) })
		if took := time.Since(began); err == nil || errors.Is(err, fence.ErrLateWrite) || took > 10*time.Second {
			return fmt.Errorf("the check that waits: after %v: %v", took, err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	return errors.Join(err, s.pass(ctx, "a", token))
}

// readFirst breaks the rule that Check comes first. A late writer then reads
// old data, but it must not write.
func readFirst(ctx context.Context, s subject) error {
	for _, level := range s.levels {
		key := level.String()
		if err := s.pass(ctx, key, 1); err != nil {
			return err
		}
		err := s.in(ctx, level, func(tx *sql.Tx) error {
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+s.table+"_n").Scan(&n); err != nil {
				return err
			}
			if err := s.pass(ctx, key, token); err != nil {
				return fmt.Errorf("the one between: %w", err)
			}
			return s.check(ctx, tx, key, token-1)
		})
		if again(err) {
			continue
		}
		if err := wantLate(err, token-1, token); err != nil {
			return fmt.Errorf("%v: %w", level, err)
		}
	}
	return nil
}

// concurrentWriters lets many holders read, compute and write at once, as if
// there were no lock. The accepted writes must be the same as writes one after
// the other, in the order of their tokens.
func concurrentWriters(ctx context.Context, s subject) error {
	const writers = 24
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() { errs[i] = s.write(ctx, s.levels[i%len(s.levels)], uint64(token+i%(writers/2))) })
	}
	wg.Wait()
	accepted := 0
	for i, err := range errs {
		if err == nil {
			accepted++
		} else if !errors.Is(err, fence.ErrLateWrite) {
			return fmt.Errorf("writer %d: %w", i, err)
		}
	}
	var n int
	if err := s.db.QueryRowContext(ctx, "SELECT n FROM "+s.table+"_n").Scan(&n); err != nil {
		return err
	}
	tokens, err := s.log(ctx)
	if err != nil {
		return err
	}
	if n != accepted || len(tokens) != accepted || !slices.IsSorted(tokens) || accepted == 0 {
		return fmt.Errorf("%d accepted, n is %d, the log %v", accepted, n, tokens)
	}
	return nil
}

// write adds 1 to n with a read and a write. It begins again as often as the
// database demands.
func (s subject) write(ctx context.Context, level sql.IsolationLevel, token uint64) error {
	for {
		err := s.in(ctx, level, func(tx *sql.Tx) error {
			if err := s.check(ctx, tx, "stock:lamp", token); err != nil {
				return err
			}
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT n FROM "+s.table+"_n").Scan(&n); err != nil {
				return err
			}
			time.Sleep(time.Millisecond) // for others to come between
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s_n SET n = %d", s.table, n+1)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s_log (token) VALUES (%d)", s.table, token))
			return err
		})
		if !again(err) {
			return err
		}
	}
}

func (s subject) log(ctx context.Context) (tokens []int64, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT token FROM "+s.table+"_log ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var token int64
		if err := rows.Scan(&token); err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	return tokens, rows.Err()
}

// concurrentFirst lets many transactions make several rows at once. In the end
// the highest token passes.
func concurrentFirst(ctx context.Context, s subject) error {
	var wg sync.WaitGroup
	errs := make([]error, 32)
	for i := range errs {
		wg.Go(func() {
			for again(errs[i]) || errs[i] == nil {
				if errs[i] = s.pass(ctx, fmt.Sprint("new", i%4), token); errs[i] == nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func invalid(ctx context.Context, s subject) error {
	for _, c := range []struct {
		key   string
		token uint64
	}{{"a", 0}, {"a", 1 << 63}, {"a", math.MaxUint64}, {"", 1}, {strings.Repeat("x", 256), 1}} {
		if err := s.pass(ctx, c.key, c.token); !errors.Is(err, guard.ErrInvalidOption) {
			return fmt.Errorf("key of %d bytes, token %d: %w", len(c.key), c.token, err)
		}
	}
	return nil
}
