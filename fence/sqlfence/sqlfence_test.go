package sqlfence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlfence"
)

// The effect of the statements is tested on real servers, in lab/fencetest.
func TestOnlyNamesOfTablesGetIntoStatements(t *testing.T) {
	for name, fine := range map[string]bool{
		"fences": true, "_f1": true, "Shop.Fences": true, strings.Repeat("x", 63): true,
		"": false, "1f": false, "a b": false, "a;b": false, `a"b`: false, "a`b": false, "a'b": false, "a--": false,
		"a.": false, ".a": false,
		"a.b.c": false, "a\n": false, "fänces": false, "f%s": false, strings.Repeat("x", 64): false,
	} {
		for _, d := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite} {
			table, err := sqlfence.New(d, name)
			if (err == nil) != fine || (err != nil && !errors.Is(err, guard.ErrInvalidOption)) {
				t.Errorf("table %q: %v", name, err)
			}
			if err == nil && !strings.Contains(table.Schema(), " "+name+" (") {
				t.Errorf("table %q: %s", name, table.Schema())
			}
		}
	}
	for _, d := range []sqlfence.Dialect{0, 4, -1} {
		if _, err := sqlfence.New(d, "fences"); !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("dialect %d: %v", d, err)
		}
	}
}
