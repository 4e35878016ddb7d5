package sqlitedsn_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	_ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAWrongAddressIsRefused(t *testing.T) {
	for _, dsn := range []string{
		"sqlite:", "sqlite://", "sqlite://host/secret", "sqlite::memory:", "sqlite:secret?mode=ro", "sqlite:secret#x",
		"sqlite:%zzsecret", "sqlite:secret%00", "sqlite:secret?table=%zz",
	} {
		_, err := locker.FromDSN(dsn)
		if !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want an ErrInvalidOption that does not show the address", dsn, err)
		}
	}
}

// TestAnAddressIsALockOfItsFile locks by two addresses of one file, whose name
// has every character with a meaning. goleak sees that Close closes it.
func TestAnAddressIsALockOfItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a ?#%25&_pragma=locks.db")
	escaped := strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(file)
	first, second := open(t, "sqlite:"+escaped+"?table=locks"), open(t, "sqlite://"+escaped+"?table=locks")
	err := first.Do(t.Context(), "k", func(ctx context.Context) error {
		ok, err := second.TryDo(ctx, "k", func(context.Context) error { return nil })
		if ok {
			t.Error("two guards are in their sections at once")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if found, err := locker.Findings(first.Check(t.Context())); len(found) > 0 || err != nil {
		t.Errorf("%v, %v, want nothing to be wrong", found, err)
	}
}

func open(t *testing.T, dsn string) *guard.Guard {
	t.Helper()
	l, err := locker.FromDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.(interface {
		Migrate(ctx context.Context) error
	}).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(l, guard.WithTTL(time.Minute), guard.WithMaxWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return g
}
