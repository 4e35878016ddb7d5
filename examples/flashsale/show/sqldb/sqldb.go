// Package sqldb is what the show knows of SQL databases. It has no driver,
// because drivers take longer to build than all the rest of the flash sale.
// Package drivers, below it, has them.
package sqldb

import (
	"database/sql"
	"errors"

	"github.com/go-lockguard/guard/fence/sqlfence"
)

// Database is what -store names. Its name and the errors of Open never have a
// password in them.
type Database struct {
	Dialect sqlfence.Dialect
	Name    string // as people may see it
	Open    func() (*sql.DB, error)
}

// Parse reads the address of a database. Its errors never have a password in
// them. Package drivers replaces it when the program starts.
var Parse = func(string) (Database, error) {
	return Database{}, errors.New("this program has no drivers of databases, which take long to build: " +
		"use go run ./examples/flashsale/withsql")
}
