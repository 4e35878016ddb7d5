// Package sqlitelocker keeps leases in a SQLite database, 3.42 or newer. It is
// for the processes of one machine that have no server to share.
//
//	db, err := sql.Open("sqlite", "file:/var/lib/app/locks.db?_pragma=journal_mode(wal)")
//	store := sqlitelocker.New(db)
//	err = store.Migrate(ctx)
//	g, err := guard.New(store)
//
// Any driver of package database/sql will do, such as modernc.org/sqlite or
// github.com/mattn/go-sqlite3. The caller closes the database, after the guard.
//
// # What it is good for
//
// It excludes the processes that open the same file on one machine. A network
// file system is not good enough, because SQLite's locks do not work there.
// Choose a file of its own: SQLite has one writer at a time, and a long
// transaction of the application keeps all locks waiting.
//
// A process that dies leaves its keys to their TTL. Leases end by the clock of
// the machine, as the machine tells it: a clock that is set forward ends leases
// early.
//
// Do not delete or replace the file while a process has it open. The process
// keeps the old file, and two may hold a key.
//
// # How it works
//
// There is one row for each key, with the owner and the queue. A request reads
// the row, and writes it back in one statement, which fails if another process
// was faster. No transaction stays open, so a process that is stopped in
// between blocks nobody.
//
// SQLite sends no messages. A process with a claim that waits reads its rows
// every 10 ms, and one that only owns keys reads theirs every 40 ms. With many
// keys the reads are fewer, with a pause of at most 60 ms between two.
//
// docs/stores.md has the settings of the database: the journal, no long
// busy_timeout, and what a crash of the machine undoes. Tokens rise even then,
// because they follow the clock.
package sqlitelocker
