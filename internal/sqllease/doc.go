// Package sqllease keeps the rows of package rowlocker in one table of a SQL
// database, which mysqllocker and sqlitelocker share. A [Dialect] has what
// differs.
package sqllease
