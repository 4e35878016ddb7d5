// Package sqllease keeps the rows of package rowlocker in one table of a SQL
// database, which mysqllocker and sqlitelocker share. A [Dialect] has what
// differs.
//
// Calls to the rows travel together: one statement reads the rows of many keys,
// and one writes them back. The statement fails as a whole if another process
// has changed one of the rows meanwhile, and each is then written by itself.
// There are no transactions, and no lock is held over a round trip: a process
// that hangs between two requests keeps nobody from the store.
//
// There are no messages. The kit asks for the rows of all claims that wait or
// own a key in a process.
package sqllease
