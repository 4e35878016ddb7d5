package lockerkit_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

func TestATTLRunsFromTheFirstSightOfARevision(t *testing.T) {
	var ss lockerkit.Sights
	now := time.Now()
	see := func(key string, revision int64, ttl time.Duration, at time.Time) lockerkit.Sight {
		return ss.First(key, lockerkit.Sight{Revision: revision, Ends: at.Add(ttl)}, at)
	}
	see("k", 7, time.Second, now)
	for after, over := range map[time.Duration]bool{0: false, 999 * time.Millisecond: false, time.Second: true} {
		at := now.Add(after)
		if got := see("k", 7, time.Second, at); got.Over(at) != over || got.Left(at) != time.Second-after {
			t.Errorf("%v after the first sight: over %v, %v left", after, got.Over(at), got.Left(at))
		}
	}
	later := now.Add(time.Hour)
	if see("k", 8, time.Second, later).Over(later) {
		t.Error("a renewed key was over at first sight")
	}
	if _, ok := ss.Seen("k", 7); ok {
		t.Error("an old revision counts as seen")
	}
	if s, ok := ss.Seen("k", 8); !ok || s.Left(later) != time.Second {
		t.Errorf("the revision that was seen: %v, %v", s, ok)
	}
	ss.Forget("k")
	if _, ok := ss.Seen("k", 8); ok {
		t.Error("a key that was forgotten counts as seen")
	}
}

func TestAStrangersKeyNeverEnds(t *testing.T) {
	s, now := lockerkit.Sight{Revision: 9}, time.Now()
	if s.Over(now.Add(time.Hour)) || s.Left(now) != 0 {
		t.Errorf("the value of a stranger ends: over %v, %v left", s.Over(now.Add(time.Hour)), s.Left(now))
	}
}

func TestOnlySoManySightsAreKept(t *testing.T) {
	const most = 10_000
	var ss lockerkit.Sights
	now := time.Now()
	see := func(n int, ends, at time.Time) {
		ss.First(strconv.Itoa(n), lockerkit.Sight{Revision: 1, Ends: ends}, at)
	}
	count := func(from, to int) (kept int) {
		for n := from; n < to; n++ {
			if _, ok := ss.Seen(strconv.Itoa(n), 1); ok {
				kept++
			}
		}
		return kept
	}
	for n := range most {
		see(n, now.Add(time.Duration(n%2)*time.Hour), now) // half of them end at once
	}
	later := now.Add(2 * time.Minute)
	for n := most; n < most+most/2; n++ {
		see(n, later.Add(time.Hour), later)
	}
	if old, young := count(0, most), count(most, most+most/2); old != most/2 || young != most/2 {
		t.Errorf("%d old and %d new sights are kept, want those that have not ended", old, young)
	}
	for n := 2 * most; n < 4*most; n++ {
		see(n, later.Add(time.Hour), later)
	}
	if kept := count(0, 4*most); kept > most || kept < most*9/10 {
		t.Errorf("%d sights are kept, want %d at most", kept, most)
	}
}
