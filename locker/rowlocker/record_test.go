package rowlocker

import (
	"testing"
	"time"
)

const minute = int64(60e6)

func recalls(owner string, wait bool) *request {
	q := asks(owner, wait)
	q.recall, q.fencing = true, false
	return q
}

func keeps(owner string) *request {
	return &request{verb: keep, key: "k", owner: owner, ttl: minute, value: []byte("v")}
}

func begins(owner string) *request {
	return &request{verb: begin, key: "k", owner: owner, ttl: minute, value: []byte("m")}
}

// once returns a row that a owns from second 100 on. Behind it are b, which
// recalls, and c, which does not.
func once(t *testing.T) row {
	t.Helper()
	r := at(row{}, 100)
	if res := r.apply(recalls("a", false)); !res.ok {
		t.Fatalf("a new key: %+v, want it acquired", res)
	}
	r.apply(recalls("b", true))
	r.apply(asks("c", true))
	if len(r.queue) != 2 {
		t.Fatalf("the queue is %+v, want b and c", r.queue)
	}
	return r
}

// A write that does not change the record must not send its value, because it
// may not have been read.
func TestAValueIsWrittenOnlyWhenItChanges(t *testing.T) {
	r := at(once(t), 101)
	r.apply(keeps("a"))
	r.record.dirty, r.record.Value = false, nil // as it is read without values
	r.apply(asks("d", true))
	if !r.dirty || r.record.dirty {
		t.Errorf("a claim that waits: row changed %v, value %v", r.dirty, r.record.dirty)
	}
}

// A store without a clock deletes the row of a dead owner, and cannot if the
// row stays for its record.
func TestARecordDoesNotHoldTheKeyOfADeadOwner(t *testing.T) {
	noClock := &Traits{Name: "test"}
	r := at(row{blocks: true}, 100)
	r.apply(recalls("a", false))
	r.apply(begins("a"))
	src := encode("k", &r, noClock)[0]
	if src.HeldFor != 10*time.Second || src.KeepFor != time.Minute {
		t.Fatalf("held for %v, kept for %v", src.HeldFor, src.KeepFor)
	}
	src.Version = 1
	if src.RecordFor != time.Minute {
		t.Errorf("the record lasts for %v", src.RecordFor)
	}
	src.Forgot, src.Vacant = true, true
	if r := decode(&src, noClock, newMemory(), 500e6); !r.free() || r.counting() != nil {
		t.Errorf("forgotten and vacant: free %v, the mark counts %v", r.free(), r.counting() != nil)
	}
	src.Forgot = false
	for _, vacant := range []bool{false, true} {
		src.Vacant = vacant
		r := decode(&src, noClock, newMemory(), 500e6)
		if r.free() != vacant || vacant == (r.counting() == nil) {
			t.Errorf("vacant %v: free %v, the mark counts %v", vacant, r.free(), r.counting() != nil)
		}
	}
}

// A Forget may arrive late, when another claim has left a record.
func TestALateForgetLeavesTheRecordOfAnother(t *testing.T) {
	r := at(once(t), 101)
	r.apply(keeps("a"))
	if res := r.apply(&request{verb: forget, key: "k", owner: "b"}); res.ok || r.left() == nil {
		t.Errorf("%+v, the record is left: %v", res, r.left() != nil)
	}
}
