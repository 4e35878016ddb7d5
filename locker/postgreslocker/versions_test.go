package postgreslocker_test

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/postgreslocker"
)

// Migrate of another release replaces a text under the same name, while
// processes of this one use it.
func TestTheTextOfAVersionDoesNotChange(t *testing.T) {
	_, functions, _ := strings.Cut(postgreslocker.New(pool(t)).Schema(), "CREATE OR REPLACE")
	const want = "9ee488534b533041"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(functions)))[:16]; got != want {
		t.Errorf("the functions have the sum %s, want %s: after a release, a new text needs a new version", got, want)
	}
}

func TestTwoVersionsExcludeEachOther(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	if err := a.UseVersion(tableOf(b), "0"); err != nil {
		t.Fatal(err)
	}
	if err := a.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var inside, last atomic.Int64
	var all sync.WaitGroup
	for _, l := range []*postgreslocker.Locker{a, b} {
		g, err := guard.New(l, guard.WithFencing(), guard.WithMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(context.WithoutCancel(t.Context())) }()
		for range 4 {
			all.Go(func() {
				for range 50 {
					if err := g.Do(t.Context(), "k", func(ctx context.Context) error {
						if inside.Add(1) > 1 {
							t.Error("two sections run at once")
						}
						defer inside.Add(-1)
						token, err := guard.FencingToken(ctx)
						if before := last.Swap(int64(token)); err == nil && int64(token) <= before {
							t.Errorf("token %d after %d", token, before)
						}
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
}

// version1 has no owners but one.
//
//go:embed testdata/version1.sql
var version1 string

// old is a process of version 1, which wants a key.
type old struct {
	*testing.T

	conn      *pgx.Conn
	call, key string
}

// do makes a call. op and flags are those of version 1.
func (o old) do(op string, c *locker.Claim, flags int32) (ok, queued, handed bool) {
	o.Helper()
	if err := o.conn.QueryRow(o.Context(), o.call, op, []byte(o.key), c.Owner, flags).
		Scan(&ok, &queued, &handed); err != nil {
		o.Fatal(err)
	}
	return ok, queued, handed
}

// A process of version 1 waits for all owners of a key, and hands a key to a
// claim that may share it.
func TestVersion1WaitsForAllOwnersAndHandsThemTheKey(t *testing.T) {
	t.Parallel()
	l, _ := pair(t)
	open(t, l, silent{})
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	schema, err := postgreslocker.Fill(version1, tableOf(l), "1")
	if err == nil {
		_, err = conn.PgConn().Exec(t.Context(), schema).ReadAll()
	}
	if err != nil {
		t.Fatal(err)
	}
	call, err := postgreslocker.Fill(`SELECT o_ok, o_queued, o_handed FROM {F}(ARRAY[$1::text], ARRAY[$2::bytea],
		ARRAY[$3::text], '{""}', '{60000000}', '{1000000}', '{1000000}', '{false}', '{"{}"}', '{"-guard:old"}', '{0}',
		ARRAY[$4::int])`, tableOf(l), "1")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		began := time.Now()
		err := besideVersion1(old{t, conn, call, "k" + strconv.Itoa(n)}, l)
		if err == nil {
			return
		}
		if time.Since(began) < time.Second || n == 20 { // else offers ended, or claims that were not seen left
			t.Fatal(err)
		}
	}
}

func besideVersion1(o old, l *postgreslocker.Locker) error {
	o.Helper()
	reader := func() *locker.Claim {
		c := claim(o.key)
		c.Limit, c.TTL = locker.NoLimit, time.Minute
		return c
	}
	owner, first, second, alone := reader(), reader(), reader(), claim(o.key)
	acquire(o.T, l, owner, locker.Try{})
	if ok, queued, _ := o.do("a", alone, 1); ok || !queued {
		return fmt.Errorf("version 1 owns a key that is shared: %v, is queued: %v", ok, queued)
	}
	if r, err := l.Release(o.Context(), owner, nil); err != nil || !r.Handed {
		return fmt.Errorf("the shared key was not handed over: %+v, %w", r, err)
	}
	if ok, _, _ := o.do("a", alone, 4); !ok {
		return errors.New("version 1 was not handed the key")
	}
	acquire(o.T, l, first, locker.Try{Wait: true})
	acquire(o.T, l, second, locker.Try{Wait: true})
	if ok, _, handed := o.do("r", alone, 0); !ok || !handed {
		return fmt.Errorf("version 1 released: %v, handed the key over: %v", ok, handed)
	}
	for _, c := range []*locker.Claim{first, second} { // version 1 has handed the first the key alone
		if x := acquire(o.T, l, c, locker.Try{Wait: true, Queued: true}); !x.Acquired {
			return fmt.Errorf("%+v, want the key", x)
		}
	}
	if ok, _, _ := o.do("a", alone, 0); ok {
		return errors.New("version 1 owns a key that two share")
	}
	for _, c := range []*locker.Claim{first, second} {
		if _, err := l.Release(o.Context(), c, nil); err != nil {
			return err
		}
	}
	if ok, _, _ := o.do("a", alone, 0); !ok {
		return errors.New("version 1 does not get a key that all have released")
	}
	return nil
}
