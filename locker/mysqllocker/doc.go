// Package mysqllocker keeps leases in a table of MySQL 5.7, MariaDB 10.6, or
// newer. Its tests run on MariaDB 10.11.
//
//	db, err := sql.Open("mysql", "app:secret@tcp(db:3306)/app?interpolateParams=true&innodb_lock_wait_timeout=1")
//	store := mysqllocker.New(db)
//	err = store.Migrate(ctx)
//	g, err := guard.New(store)
//
// TLS, user and limits of connections are those of the database that the caller
// opened. The caller closes it, after the guard. A locker uses up to seven
// connections at a time, and seldom more than two.
//
// The parameter interpolateParams halves the round trips of the driver. The
// parameter innodb_lock_wait_timeout matters on MySQL only. While another
// transaction locks rows of the table, the server goes on with requests that
// gave up, for as many seconds, and may run out of connections. The parameter
// is for all statements of the database, so give the locker one of its own. On
// MariaDB each statement of a locker ends in the server before its caller gives
// up.
//
// # How it works
//
// There is one row for each key, with the owner and the queue. A request reads
// the row, and writes it back in one statement, which fails if another process
// was faster. There are no transactions, no GET_LOCK and no locks that last
// longer than a statement. A process that hangs, or a network that breaks,
// keeps nobody from the store. The isolation level does not matter.
//
// MySQL sends no messages. A process with a claim that waits reads its rows
// every 10 ms, and one that only owns keys reads theirs every 40 ms. With many
// keys the reads are fewer, with a pause of at most 60 ms between two.
//
// Leases end by the UTC clock of the server. A clock that is set forward ends
// them early. One that is set back keeps the keys of dead holders for as much
// longer. Time zones do not matter.
//
// A server with read_only answers ErrUnavailable, and its connections are
// closed. The locker thus finds the new primary after a failover that leaves
// the old one running.
//
// docs/stores.md has the rights of the user, and the settings of the server.
package mysqllocker
