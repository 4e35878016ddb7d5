// Package sqllease is a store of leases in one table of a SQL database, which
// mysqllocker and sqlitelocker share. A [Dialect] has what differs.
//
// The protocol is a pure function on a row, see row.apply. A request reads
// rows, applies calls to them, and writes them back in one statement. The
// statement fails as a whole if another process has changed one of the rows
// meanwhile, and the request begins anew. There are no transactions, and no
// lock is held over a round trip: a process that hangs between two requests
// keeps nobody from the store.
//
// There are no messages. Each process asks for the rows of all claims that wait
// or own a key in it, see lookout.
package sqllease
