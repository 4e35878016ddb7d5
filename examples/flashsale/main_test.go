package main

import (
	"strings"
	"testing"

	"github.com/go-lockguard/guard/examples/flashsale/show/sqldb"
)

// The first command of the README builds no drivers of databases.
func TestTheFlashSaleHasNoDrivers(t *testing.T) {
	if _, err := sqldb.Parse("sqlite"); err == nil || !strings.Contains(err.Error(), "./examples/flashsale/withsql") {
		t.Errorf("%v, want the program that has the drivers", err)
	}
}
