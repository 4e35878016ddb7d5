package lockerkit

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker"
)

// named is a cleanup that a test can tell from others.
func named(n int) Cleanup { return Cleanup{Claim: &locker.Claim{Key: strconv.Itoa(n)}} }

// at is named, at a node.
func at(node string, n int) Cleanup {
	c := named(n)
	c.Node = node
	return c
}

func name(c *Cleanup) int {
	n, _ := strconv.Atoi(c.Claim.Key)
	return n
}

// untried is named, for a backlog.
func untried(n int) *Cleanup {
	c := named(n)
	return &c
}

func TestABacklogIsBoundedAndKeepsTheFreshFirst(t *testing.T) {
	b, now := &backlog{}, time.Now()
	for n := range cleanupMost {
		b.add(untried(n))
		b.add(&Cleanup{Claim: untried(-1).Claim, tries: 1, due: now.Add(time.Duration(n))})
	}
	for n, c := range b.all {
		if name(c) != n {
			t.Fatalf("place %d has %d", n, name(c))
		}
	}
	if len(b.all) != cleanupMost || b.dropped != cleanupMost {
		t.Errorf("%d cleanups are kept and %d dropped, want %d each", len(b.all), b.dropped, cleanupMost)
	}
	for n := range testsize.Pick(100, 20) * cleanupMost { // what was taken is not kept
		b.take(now, false)
		b.add(untried(n))
	}
	if c := cap(b.all); c > 4*cleanupMost {
		t.Errorf("memory for %d cleanups is kept", c)
	}
}

func TestABacklogTellsOnceAMinuteAndAtItsEndHowManyItDropped(t *testing.T) {
	b, now := &backlog{}, time.Now()
	told := func(after time.Duration, want int) {
		t.Helper()
		if got := b.tell(now.Add(after)); got != want {
			t.Errorf("after %v it tells of %d, want %d", after, got, want)
		}
	}
	told(0, 0)
	for n := range cleanupMost + 10 {
		b.add(untried(n))
	}
	told(0, 10)
	b.add(untried(0))
	told(time.Second, 0)
	b.add(untried(0))
	told(tellEvery, 2)
	b.add(untried(0))
	for len(b.all) > 0 {
		told(tellEvery, 0)
		b.take(now, true)
	}
	told(tellEvery, 1)
	told(2*tellEvery, 0)
}

func TestABacklogGivesTheFreshInTheirOrderAndThenWhatIsDueByTime(t *testing.T) {
	b, now := &backlog{}, time.Now()
	for _, n := range rand.Perm(100) {
		b.add(&Cleanup{Claim: untried(1000 + n).Claim, tries: 1, due: now.Add(time.Duration(n-49) * time.Second)})
	}
	for n := range 2*cleanupBatch - 10 {
		b.add(untried(n))
	}
	var got []int
	for batch := b.take(now, false); len(batch) > 0; batch = b.take(now, false) {
		if len(batch) > cleanupBatch {
			t.Fatalf("a batch of %d", len(batch))
		}
		for _, c := range batch {
			got = append(got, name(c))
		}
	}
	for i, n := range got {
		want := i
		if i >= 2*cleanupBatch-10 {
			want = 1000 + i - (2*cleanupBatch - 10)
		}
		if n != want {
			t.Fatalf("place %d has %d, want %d", i, n, want)
		}
	}
	if len(got) != 2*cleanupBatch-10+50 {
		t.Errorf("%d cleanups, want the fresh and the 50 that are due", len(got))
	}
	if d := b.all[0].due.Sub(now); d != time.Second {
		t.Errorf("the next is due in %v, want 1 s", d)
	}
	if n := len(b.take(now, true)); n != 50 || len(b.all) > 0 {
		t.Errorf("%d cleanups at the end, want all 50", n)
	}
}
