package fencetest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/fence/sqlresult"
)

// Instances that start together run the same schema.
func TestProcessesMayRunOneSchemaAtOnce(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			for round := range 10 {
				fences, err := sqlfence.New(d.dialect, fmt.Sprintf("at_once_%d", round))
				if err != nil {
					t.Fatal(err)
				}
				results, err := sqlresult.New(d.dialect, fmt.Sprintf("results_at_once_%d", round))
				if err != nil {
					t.Fatal(err)
				}
				for _, schema := range []string{fences.Schema(), results.Schema()} {
					runAtOnce(t, d.db, schema)
				}
			}
		})
	}
}

// runAtOnce runs a statement on connections that are ready.
func runAtOnce(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	const instances = 6
	var conns []*sql.Conn
	for range instances {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	var all sync.WaitGroup
	for _, conn := range conns {
		all.Go(func() {
			if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
