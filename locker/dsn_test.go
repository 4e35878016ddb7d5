package locker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/locker"
)

func TestAnUnknownSchemeNamesTheImport(t *testing.T) {
	_, err := locker.FromDSN("redis://u:hunter2@localhost") // no test of this package imports the store
	want := `import _ "github.com/go-lockguard/guard/locker/redislocker"`
	if !errors.Is(err, locker.ErrInvalidOption) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want an ErrInvalidOption with the import", err)
	}
	_, err = locker.FromDSN("hunter2://u@localhost")
	if !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v, want an ErrInvalidOption without the scheme, which may be a password", err)
	}
}
