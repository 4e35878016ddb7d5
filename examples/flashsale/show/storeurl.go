package show

import (
	"strings"

	"github.com/go-lockguard/guard/examples/flashsale/show/sqldb"
)

// parseStore reads what -store names: an SQL database.
func parseStore(store string) (sqldb.Database, error) {
	if _, rest, ok := strings.Cut(store, "://"); ok && misplacedAt(rest) {
		return sqldb.Database{}, errMisplacedAt
	}
	return sqldb.Parse(store)
}
