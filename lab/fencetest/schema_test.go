package fencetest

import (
	"fmt"
	"testing"

	"github.com/go-lockguard/guard/fence/sqlfence"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/sqltest/sqlcrowd"
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
					sqlcrowd.AtOnce(t, func() (do func() error) {
						conn, err := d.db.Conn(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						return func() error {
							defer conn.Close()
							_, err := conn.ExecContext(t.Context(), schema)
							return err
						}
					})
				}
			}
		})
	}
}
