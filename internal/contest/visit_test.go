package contest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/judge"
)

// A gone lease was lost before its token came.
type gone struct{ Lease }

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
	notes := &Notes{}
	w := &Worker{Diary: notes}
	for n := range int64(50) {
		if err := w.section(plan{}, judge.Record{N: n}, gone{}); err != nil {
			t.Fatal(err)
		}
	}
	records := notes.Records()
	if len(records) != 100 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		if r.Kind == judge.KindEnd && r.Lost == 0 {
			t.Errorf("section %d does not know that its lease was lost", r.N)
		}
	}
}

// A half lease is held, of a cart that has lost another key.
type half struct{ gone }

func (half) Held() bool { return true }

func (half) Again(context.Context) (uint64, error) { return 0, guard.ErrNotAcquired }

// A whole lease is of a cart that has lost none.
type whole struct{ half }

func (whole) Lost() <-chan struct{} { return nil }

func TestOnlyAHolderThatWasToldOfNoLossIsDenied(t *testing.T) {
	for lease, want := range map[Lease]bool{half{}: false, whole{}: true} {
		s := &section{lease: lease}
		if s.nest(t.Context()); s.end.Denied != want {
			t.Errorf("%T: denied %t", lease, s.end.Denied)
		}
	}
}
