//go:build unix

package main

import (
	"strings"
	"testing"
)

// The judge must see what a lock that does not work lets happen.
func TestTheJudgeSeesFaults(t *testing.T) {
	j, err := newCourt()
	if err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	one := j.enters(1, 0, 1, 5)
	j.enters(2, 0, 1, 6) // beside 1
	v := j.enters(3, 1, 1, 5)
	j.leaves(1, v)
	j.enters(4, 1, 1, 5) // a token twice
	j.enters(3, 2, 2, 0)
	j.enters(4, 2, 2, 0)
	j.enters(3, 2, 3, 0) // one too many for those with 2
	j.mu.Unlock()
	j.stops(2)
	j.mu.Lock()
	j.leaves(0, one)
	j.enters(5, 0, 1, 7) // 2 was stopped
	j.enters(2, 0, 1, 6) // and is fenced off
	j.mu.Unlock()
	j.mu.Lock()
	j.runsFor(7, 1)
	j.runsFor(8, 0)
	j.runsFor(8, 0) // may run again
	j.gets(7, 1)
	j.gets(7, 1)
	if before := len(j.report.violations); before != 3 {
		t.Errorf("%d violations so far, want 3", before)
	}
	j.runsFor(7, 1)
	j.gets(7, 2)
	j.mu.Unlock()
	r := j.close()
	last := r.violations[3:]
	if len(last) != 2 || !strings.Contains(last[0], "again") || !strings.Contains(last[1], "two") {
		t.Errorf("%v, want a payment that ran twice and one with two results", last)
	}
	r.violations = r.violations[:3]
	if len(r.violations) != 3 || r.fenced != 2 || !r.Failed() ||
		!strings.Contains(r.violations[0], "beside") || !strings.Contains(r.violations[1], "token") {
		t.Errorf("%v", r)
	}
}
