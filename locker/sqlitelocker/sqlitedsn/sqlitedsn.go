// Package sqlitedsn opens sqlitelocker by an address, with the driver
// modernc.org/sqlite. It is imported for its side effect:
//
//	import _ "github.com/go-lockguard/guard/locker/sqlitelocker/sqlitedsn"
//
//	l, err := locker.FromDSN("sqlite:/var/lib/app/locks.db")
//
// A path without a slash in front is relative to the working directory. The
// file is in WAL mode, and is made if it is missing. ?table= names the table,
// as with sqlitelocker.WithTable. In a path, ? # % are written %3F %23 %25.
package sqlitedsn

import (
	"context"
	"database/sql/driver"
	"net/url"
	"strings"

	"modernc.org/sqlite"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/sqlitelocker"
)

func init() { locker.RegisterDSN("sqlite", fromDSN) }

// errDSN is the error of every wrong address.
var errDSN = lockerkit.Invalid("sqlitelocker", "the address is wrong: want "+
	"sqlite:/path/of/locks.db[?table=guard_lease], not a database in memory; in a path, ? # %% are written "+
	"%%3F %%23 %%25")

// fromDSN serves [locker.FromDSN].
func fromDSN(dsn string) (locker.Locker, error) {
	_, rest, _ := strings.Cut(dsn, ":")
	file, query, _ := strings.Cut(rest, "?")
	if after, ok := strings.CutPrefix(file, "//"); ok {
		if file = after; !strings.HasPrefix(file, "/") {
			return nil, errDSN // a host
		}
	}
	file, err := url.PathUnescape(file)
	if err != nil || file == "" || strings.HasPrefix(file, ":") ||
		strings.Contains(rest, "#") || strings.Contains(file, "\x00") {
		return nil, errDSN
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, errDSN
	}
	var opts []sqlitelocker.Option
	for name, values := range q {
		if name != "table" {
			return nil, errDSN
		}
		opts = append(opts, sqlitelocker.WithTable(values[0]))
	}
	escaped := strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(file)
	return sqlitelocker.FromConnector(connector(
		"file:"+escaped+"?_pragma=journal_mode(wal)&_pragma=synchronous(normal)"), opts...), nil
}

// connector is a name of a database for the driver.
type connector string

// Connect opens a connection. It does not block on the network.
func (c connector) Connect(context.Context) (driver.Conn, error) { return c.Driver().Open(string(c)) }

// Driver implements [driver.Connector].
func (connector) Driver() driver.Driver { return &sqlite.Driver{} }
