// Package mysqldsn opens mysqllocker by an address, with the driver
// github.com/go-sql-driver/mysql. It is imported for its side effect:
//
//	import _ "github.com/go-lockguard/guard/locker/mysqllocker/mysqldsn"
//
//	l, err := locker.FromDSN("mysql://app:secret@db:3306/app")
//
// The port is 3306 if the address has none. The connections have
// interpolateParams and innodb_lock_wait_timeout=1, see package mysqllocker. Two
// parameters are known:
//
//	table  name of the table, as with mysqllocker.WithTable
//	tls    false, the default; true; preferred; or skip-verify
package mysqldsn

import (
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

func init() { locker.RegisterDSN("mysql", fromDSN) }

// errDSN is the error of every wrong address. It shows no part of it, because
// any part may belong to a password.
var errDSN = lockerkit.Invalid("mysqllocker", "the address is wrong: want "+
	"mysql://user:password@host:port/database[?tls=true&table=guard_lease]; "+
	"in users and passwords, / ? # @ are written %%2F %%3F %%23 %%40")

// fromDSN serves [locker.FromDSN].
func fromDSN(dsn string) (locker.Locker, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || u.Fragment != "" {
		return nil, errDSN
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.ContainsAny(database, "/@") {
		return nil, errDSN
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errDSN
	}
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = u.User.Username(), "tcp", u.Host, database
	c.Passwd, _ = u.User.Password()
	if u.Port() == "" {
		c.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	c.Logger = &mysql.NopLogger{} // the errors that it would log are returned, too
	c.InterpolateParams = true    // or each statement takes two round trips
	c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	var opts []mysqllocker.Option
	for name, values := range q {
		switch value := values[0]; {
		case name == "table":
			opts = append(opts, mysqllocker.WithTable(value))
		case name == "tls" && (value == "true" || value == "false" || value == "preferred" || value == "skip-verify"):
			c.TLSConfig = value
		default:
			return nil, errDSN
		}
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, errDSN
	}
	return mysqllocker.FromConnector(connector, opts...), nil
}
