// Package postgreslocker keeps leases in a table of PostgreSQL.
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
//	l := postgreslocker.New(pool)
//	err = l.Migrate(ctx) // or the SQL of l.Schema, with your own tool
//	g, err := guard.New(l)
//
// The table is plain: a row for each key, without functions or triggers.
// Package rowlocker decides what a row becomes, and one request writes the
// rows of many calls. A release hands the key over in the update that ends the
// lease, and tells the next process by NOTIFY. A key that a process takes and
// gives back by itself costs a write that reaches the disk, which an advisory
// lock does not.
//
// # Connections
//
// The locker opens its own connections with the configuration of the pool: up
// to eight, and one that listens once a key was acquired. While the server is
// silent there may be some more, which end. The locker never uses the pool
// itself. Behind a pooler in transaction mode, such as pgbouncer, pass
// [WithPooler], or pooler=true in the address of locker.FromDSN. A connection
// through it hears no messages, so name a direct way by [WithListen]. Otherwise
// the locker polls. The locker says hello to itself to find out whether it
// hears, and polls while it does not.
//
// # Rights
//
// [Locker.Migrate] needs the right to create tables. The service needs USAGE on
// the schema, and SELECT, INSERT, UPDATE and DELETE on both tables. The second
// one, with the suffix "_process", has the processes whose claims wait.
//
// # What survives
//
// Who owns a key, and for how long, is on the disk before Acquire and Renew
// answer, even if the server runs with synchronous_commit off. The same is true
// of results and marks. A release that hands the key to nobody, and a place in
// a queue, may be lost in a crash, and cost time only. Leases and results end
// by the server's clock. One that is set back keeps the keys of dead holders
// for as much longer. After a failover, a replica that was not synchronous may
// have forgotten the last leases and results. A row that means nothing any more
// is deleted within some 10 minutes.
//
// A server whose transactions are read-only answers ErrUnavailable, and the
// connections to it are closed. The locker thus finds the new primary after a
// failover that leaves the old one running.
//
// A transaction that stays open for long keeps dead versions of the rows of a
// hot key, and slows it down. Give the table a database of its own if yours has
// such transactions.
package postgreslocker
