package redislocker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	_ "github.com/go-lockguard/guard/locker/memlocker"
)

func TestAnAddressOpensAStoreThatOwnsItsClient(t *testing.T) {
	server := miniredis.RunT(t)
	for _, dsn := range []string{"redis://" + server.Addr() + "/0", "mem:"} {
		l, err := locker.FromDSN(dsn)
		if err != nil {
			t.Fatalf("%s: %v", dsn, err)
		}
		g, err := guard.New(l)
		if err != nil {
			t.Fatalf("%s: %v", dsn, err)
		}
		ran := false
		if err := g.Do(t.Context(), "k", func(context.Context) error { ran = true; return nil }); err != nil || !ran {
			t.Errorf("%s: Do: %v, ran: %v", dsn, err, ran)
		}
		// TestMain finds what a client leaves running
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("%s: Close: %v", dsn, err)
		}
	}
}

func TestAddressesOfEveryFormAreRead(t *testing.T) {
	for _, dsn := range []string{
		"redis://u:p@localhost:6379/3?read_timeout=1s",
		"REDISS://localhost:6380",
		"redis+sentinel://:p@a:26379,b:26379,c:26379/mymaster?db=1&password=q",
		"redis+cluster://u:p@a:7000,b:7000",
	} {
		if _, err := locker.FromDSN(dsn); err != nil { // TestMain finds what it leaves running
			t.Errorf("%s: %v", dsn, err)
		}
		l, err := locker.FromDSN(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		if err := errors.Join(l.Open(waker{}), l.Close(t.Context())); err != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

func TestNoErrorShowsAPassword(t *testing.T) {
	const secret = "hunter%zz2"
	for _, dsn := range []string{
		secret,
		secret + ":6379",
		"hunter2://u@localhost:1",
		"localhost:" + secret,
		"redis://u:" + secret + "@localhost:6379",
		"redis://u:hunter2/x@localhost:6379",
		"redis://localhost:6379/db?password=hunter2",
		"redis+sentinel://u:" + secret + "@a:1,b:2/m",
		"redis+sentinel://u:hunter2@a:1,b:2",
		"redis+cluster://u:hunter2@a:1,b",
		"redis+cluster://u:hunter2@a:1,b:2/x",
		"postgres://u:hunter2@localhost/db",
		"mem://hunter2",
	} {
		_, err := locker.FromDSN(dsn)
		if !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", dsn, err)
		} else if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: the error shows it: %v", dsn, err)
		}
	}
}
