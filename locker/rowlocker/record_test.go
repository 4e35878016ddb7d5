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

func TestARecordTakesThoseThatRecallOutOfTheQueue(t *testing.T) {
	r := at(once(t), 101)
	if res := r.apply(keeps("a")); !res.ok || !res.handed || sole(&r) != "c" || len(r.queue) > 0 || !r.record.dirty {
		t.Fatalf("Keep: %+v of %+v, want c to own the key and b to be gone", res, r)
	}
	for _, owner := range []string{"b", "d"} {
		if res := r.apply(recalls(owner, true)); string(res.record) != "v" || res.ok || res.queued {
			t.Errorf("Acquire by %s, which recalls: %+v, want the record", owner, res)
		}
	}
	if res := r.apply(asks("e", true)); res.record != nil || !res.queued {
		t.Errorf("Acquire by e, which does not: %+v, want it queued", res)
	}
	r.apply(&request{verb: release, key: "k", owner: "c"})
	if res := after(at(r, 170), recalls("f", false)); !res.ok {
		t.Errorf("Acquire when the record has ended: %+v, want the key", res)
	}
}

// after returns what q does to r, and leaves r as it is.
func after(r row, q *request) result { return r.apply(q) }

func TestOnlyTheOwnerKeepsARecord(t *testing.T) {
	for name, q := range map[string]*request{"another": keeps("c"), "the last owner, too late": keeps("a")} {
		r := at(once(t), 111) // the lease of a has ended
		if res := r.apply(q); res.ok || r.record.Owner != "" {
			t.Errorf("Keep by %s: %+v, record %+v", name, res, r.record)
		}
	}
	r := at(once(t), 101)
	r.apply(keeps("a"))
	before := r.record
	r = at(r, 101.5)
	if res := r.apply(keeps("a")); !res.ok || r.dirty || r.record.Ends != before.Ends {
		t.Errorf("the same Keep again: %+v, want success and no change", res)
	}
	if res := r.apply(keeps("b")); res.ok {
		t.Errorf("Keep by b beside that record: %+v", res)
	}
}

func TestAMarkCountsWhileItsOwnerDoesNotOwnTheKey(t *testing.T) {
	r := once(t)
	if res := r.apply(begins("a")); !res.ok || res.record != nil {
		t.Fatalf("Begin: %+v", res)
	}
	if res := r.apply(begins("a")); !res.ok || res.record != nil {
		t.Errorf("Begin again: %+v, want the same", res)
	}
	if res := after(at(r, 101), recalls("b", true)); res.record != nil || !res.queued {
		t.Errorf("Acquire by b while a runs: %+v, want it queued", res)
	}
	for _, owner := range []string{"", "a"} {
		if res := after(at(r, 101), &request{verb: forget, key: "k", owner: owner}); res.ok {
			t.Error("Forget took the mark of a call that runs")
		}
	}
	ended := at(r, 111)
	if res := ended.apply(recalls("b", true)); string(res.record) != "m" || ended.waits("b") {
		t.Errorf("Acquire by b when the lease has ended: %+v, want the mark, and b out of the queue", res)
	}
	if res := ended.apply(&request{verb: forget, key: "k"}); !res.ok || string(res.record) != "a" ||
		ended.left() == nil {
		t.Errorf("Forget of any record: %+v, %+v, want its owner and no change", res, ended.record)
	}
	if res := ended.apply(&request{verb: forget, key: "k", owner: "b"}); res.ok || ended.left() == nil { // it came late
		t.Errorf("Forget of the record of another owner: %+v, %+v", res, ended.record)
	}
	if res := ended.apply(&request{verb: forget, key: "k", owner: "a"}); !res.ok || ended.left() != nil ||
		!ended.record.dirty {
		t.Errorf("Forget of a mark that counts: %+v, %+v", res, ended.record)
	}

	left := at(r, 101) // by a release: fn has failed
	left.apply(&request{verb: release, key: "k", owner: "a"})
	if sole(&left) != "b" || left.counting() == nil {
		t.Errorf("after a release: owner %q, record %+v, want b and the mark", sole(&left), left.record)
	}
	if res := left.apply(begins("b")); !res.ok || string(res.record) != "m" || left.record.Owner != "a" {
		t.Errorf("Begin beside the mark of a: %+v, want that mark", res)
	}

	if res := left.apply(recalls("b", false)); !res.ok {
		t.Errorf("Acquire again by b, which owns the key beside that mark: %+v", res)
	}
	left.apply(&request{verb: release, key: "k", owner: "b", unmark: true})
	if left.record.Owner != "a" {
		t.Error("b, which left no mark, took that of a")
	}

	undone := at(r, 101)
	undone.apply(&request{verb: release, key: "k", owner: "a", unmark: true})
	if undone.left() != nil || !undone.record.dirty {
		t.Errorf("Release after Unmark leaves %+v", undone.record)
	}
	if res := after(at(r, 101), &request{verb: release, key: "k", owner: "c", unmark: true}); res.ok {
		t.Errorf("c, which waits, released the key: %+v", res)
	}
	kept := at(r, 101)
	kept.apply(keeps("a"))
	kept.apply(&request{verb: release, key: "k", owner: "a", unmark: true})
	if left := kept.counting(); left == nil || left.Mark {
		t.Errorf("a record in place of the mark, then Unmark: %+v", left)
	}
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
