package turns

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestTheMostUrgentRenewalsAreSentFirst(t *testing.T) {
	class, now := &renewals{inFlight: renewBatches}, time.Now() // no timer is set for it
	r := &renewer{classes: map[int]*renewals{8: class}}
	for range 1000 {
		left := 300*time.Millisecond + rand.N(300*time.Millisecond)
		r.add(&grant{}, 166*time.Millisecond, now.Add(left))
	}
	gone := class.due[500].grant
	if !r.forget(gone) || r.forget(gone) {
		t.Error("what is due is not forgotten once")
	}
	var sent []time.Time
	for len(class.due) > 0 {
		late, batch, limit := r.take(class)
		if len(late) > 0 || len(batch) > renewBatch || limit > 166*time.Millisecond {
			t.Fatalf("%d late, %d in a batch of %v", len(late), len(batch), limit)
		}
		for _, gr := range batch {
			sent = append(sent, gr.renewal.end)
		}
	}
	if len(sent) != 999 || !inOrder(sent) {
		t.Errorf("%d were sent, in order: %v", len(sent), inOrder(sent))
	}
	if slices.Reverse(sent); inOrder(sent) {
		t.Error("the least urgent first is found to be in order")
	}
}

func inOrder(ends []time.Time) bool { return slices.IsSortedFunc(ends, time.Time.Compare) }
