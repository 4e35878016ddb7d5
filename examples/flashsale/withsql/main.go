// Withsql is the flash sale with the drivers of SQL databases, for its flag
// -store. The flash sale itself has none, so that it is built sooner.
//
//	go run ./examples/flashsale/withsql -store sqlite
package main

import (
	"os"

	"github.com/go-lockguard/guard/examples/flashsale/show"
	_ "github.com/go-lockguard/guard/examples/flashsale/show/sqldb/drivers"
)

func main() { os.Exit(show.Main(os.Args[1:], os.Stdout, os.Stderr)) }
