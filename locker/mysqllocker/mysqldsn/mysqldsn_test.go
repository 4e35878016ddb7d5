package mysqldsn_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/locker"
	_ "github.com/go-lockguard/guard/locker/mysqllocker/mysqldsn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAWrongAddressIsRefusedAndNotShown(t *testing.T) {
	for _, dsn := range []string{
		"mysql:", "mysql://", "mysql:secret", "mysql://secret", "mysql://secret/", "mysql://u:secret@/db",
		"mysql://u:secret/x@a:1/db", "mysql://secret/x@a:1/db", "mysql://u:secret?x@a:1/db",
		"mysql://u:secret#x@a:1/db",
		"mysql://u:p@a:secret/db", "mysql://u:p@a:1/db/secret", "mysql://u:p@a:1/db?secret=1",
		"mysql://u:p@a:1/db#secret",
		"mysql://u:p@a:1/db?tls=secret", "mysql://u:%zzsecret@a:1/db", "mysql://u:p@a:1/db?table=%zzsecret",
	} {
		_, err := locker.FromDSN(dsn)
		if !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an ErrInvalidOption without the secret", dsn, err)
		}
	}
}

func TestAnAddressOpensNothing(t *testing.T) { // or goleak would find it
	for _, dsn := range []string{
		"mysql://h/db", "mysql://u@h:1/db", "MySQL://u:s%2F%3F%23%40@[::1]:3306/db?tls=preferred&table=x.y",
	} {
		if _, err := locker.FromDSN(dsn); err != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
