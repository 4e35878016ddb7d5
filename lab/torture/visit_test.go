package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-lockguard/guard/lab/torture/libs"
)

// A gone lease was lost before its token came.
type gone struct{ libs.Lease }

func (gone) Token(context.Context) (uint64, error) { return 0, errors.New("lost") }
func (gone) Held() bool                            { return false }
func (gone) Deadline() time.Time                   { return time.Time{} }
func (gone) Release(context.Context) error         { return nil }

func (gone) Lost() <-chan struct{} {
	lost := make(chan struct{})
	close(lost)
	return lost
}

func TestASectionThatEndsAtOnceRecordsItsLoss(t *testing.T) {
	file := filepath.Join(t.TempDir(), "diary")
	d, err := openDiary(file)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{diary: d}
	for n := range int64(50) {
		if err := w.section(plan{}, record{N: n}, gone{}); err != nil {
			t.Fatal(err)
		}
	}
	records, err := readDiary(file)
	if err != nil || len(records) != 100 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, r := range records {
		if r.Kind == kindEnd && r.Lost == 0 {
			t.Errorf("section %d does not know that its lease was lost", r.N)
		}
	}
}
