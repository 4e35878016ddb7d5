// Package mysqllocker keeps leases in a table of MySQL 5.7, MariaDB 10.6, or
// newer. Its tests run on MariaDB 10.11.
//
//	db, err := sql.Open("mysql", "app:secret@tcp(db:3306)/app")
//	store := mysqllocker.New(db)
//	err = store.Migrate(ctx)
//	g, err := guard.New(store)
//
// TLS, user and limits of connections are those of the database that the caller
// opened. The caller closes it, after the guard. A locker uses up to four
// connections at a time.
//
// # How it works
//
// There is one row for each key, with the owner and the queue. A request reads
// the row, and writes it back in one statement, which fails if another process
// was faster. There are no transactions, no GET_LOCK and no locks that last
// longer than a statement. So a process that hangs, or a network that breaks,
// keeps nobody from the store. The isolation level does not matter.
//
// MySQL sends no messages. A process with a claim that waits reads its rows
// every 10 ms, and one that only owns keys reads theirs every 40 ms. With many
// keys the reads are fewer, with a pause of at most 60 ms between two.
//
// Leases end by the UTC clock of the server. A clock that is set forward ends
// them early. Time zones do not matter.
//
// # Rights
//
// The user needs four rights on the table. Only Migrate needs CREATE:
//
//	GRANT SELECT, INSERT, UPDATE, DELETE ON app.guard_lease TO 'app'@'%';
//
// # Settings of the server
//
//   - innodb_flush_log_at_trx_commit = 1, the default. Otherwise a crash forgets
//     leases whose holders are alive, and two may hold a key.
//   - All processes use one primary. A failover to a replica that was behind
//     forgets leases, as with any asynchronous replication. Use fencing tokens
//     where that matters.
//   - Galera and Group Replication: send all lockers to one node. A row that two
//     nodes change at once is found out only when it is committed.
package mysqllocker
