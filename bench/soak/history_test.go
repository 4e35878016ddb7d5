package main

import (
	"maps"
	"testing"
	"time"
)

// at returns a time of a made-up run, in ms.
func at(ms int) int64 { return int64(time.Duration(1_000_000+ms) * time.Millisecond) }

// sectionOf is a section that did all as it should; the counter is n before it.
func sectionOf(proc, began, ended int, token, n int64) visit {
	return visit{
		proc: proc, life: 1, outcome: ran, asked: at(began - 10), bound: int64(time.Second), began: at(began), ended: at(ended),
		until: at(ended + 100), token: token, read: n, wrote: n + 1, wroteAt: at(ended),
	}
}

func testBook() *book {
	return newBook(config{procs: 8, callers: 1, keys: 1, ttl: 2 * time.Second, slack: 2 * time.Second, gapSlack: time.Second}, nil)
}

// checked returns the violations in what the visits say.
func checked(b *book, visits ...visit) map[string]int {
	for _, v := range visits {
		b.outcomes[v.outcome]++
		b.keys[0].visits = append(b.keys[0].visits, v)
	}
	b.settle(at(1 << 20))
	return b.violations
}

func only(t *testing.T, violations map[string]int, want ...string) {
	t.Helper()
	left := maps.Clone(violations)
	for _, w := range want {
		if left[w] == 0 {
			t.Errorf("no violation %q", w)
		}
		delete(left, w)
	}
	if len(left) > 0 {
		t.Errorf("violations %v, want none", left)
	}
}

func TestOrderlySectionsBreakNothing(t *testing.T) {
	only(t, checked(testBook(), sectionOf(1, 30, 40, 7, 2), sectionOf(0, 0, 10, 5, 1), sectionOf(0, 50, 60, 9, 3)))
}

func TestSectionsThatOverlapAreFound(t *testing.T) {
	b := testBook()
	only(t, checked(b, sectionOf(0, 0, 50, 5, 1), sectionOf(1, 30, 60, 7, 2)), "overlap")
	b = testBook() // also with one long before the last
	only(t, checked(b, sectionOf(0, 0, 90, 5, 1), sectionOf(1, 30, 40, 7, 2), sectionOf(2, 60, 70, 8, 3)), "overlap")
}

func TestASectionCountsAsLongAsItsLeaseIsTrusted(t *testing.T) {
	sleeper := sectionOf(0, 0, 50, 5, 1)
	sleeper.until, sleeper.wrote = at(20), 0 // it ran on, and did not write
	only(t, checked(testBook(), sleeper, sectionOf(1, 30, 60, 7, 1)))

	dead := sectionOf(0, 0, 25, 5, 1)
	dead.killed, dead.wrote = true, 0
	only(t, checked(testBook(), dead, sectionOf(1, 30, 60, 7, 1))) // it may have written, or not
	only(t, checked(testBook(), dead, sectionOf(1, 30, 60, 7, 2)))
	dead.ended = at(35)
	only(t, checked(testBook(), dead, sectionOf(1, 30, 60, 7, 1)), "overlap")

	tardy := sectionOf(2, 40, 80, 1, 9)
	tardy.outcome = late // its lease was over before it began
	only(t, checked(testBook(), sectionOf(0, 0, 50, 5, 1), tardy))
}

func TestTokensThatDoNotRiseAreFound(t *testing.T) {
	only(t, checked(testBook(), sectionOf(0, 0, 10, 5, 1), sectionOf(1, 30, 40, 5, 2)), "token")
	only(t, checked(testBook(), sectionOf(0, 0, 10, 5, 1), sectionOf(1, 30, 40, 0, 2), sectionOf(2, 50, 60, 4, 3)), "token")
	inner := sectionOf(0, 0, 10, 5, 1)
	inner.broken = otherToken
	only(t, checked(testBook(), inner), "token")
}

func TestAfterAFlushOnlyEqualTokensAreFound(t *testing.T) {
	b := testBook()
	b.cfg.flush = true
	only(t, checked(b, sectionOf(0, 0, 50, 5, 1), sectionOf(1, 30, 60, 4, 1)))
	only(t, checked(b, sectionOf(2, 70, 80, 5, 1)), "token")
}

func TestLostUpdatesAreFound(t *testing.T) {
	only(t, checked(testBook(), sectionOf(0, 0, 10, 5, 1), sectionOf(1, 30, 40, 6, 1)), "lost update")

	sleeper := sectionOf(0, 0, 10, 5, 1) // it slept between its last look at the lease and the write
	sleeper.wroteAt = at(500)
	only(t, checked(testBook(), sleeper, sectionOf(1, 200, 210, 6, 1), sectionOf(2, 220, 230, 7, 2), sectionOf(3, 600, 610, 8, 2)))
}

func TestALeaseThatEndsBeforeItsDeadlineIsFound(t *testing.T) {
	v := sectionOf(0, 0, 10, 5, 1)
	v.broken = lostEarly
	only(t, checked(testBook(), v), "lost early")
}

func TestWaitsAreHeldAgainstTheirBoundWithoutTheTimeTheyWereFrozen(t *testing.T) {
	v := visit{proc: 3, life: 1, outcome: held, asked: at(0), bound: int64(time.Second), began: at(4000)}
	only(t, checked(testBook(), v), "wait")

	b := testBook()
	b.stopped(&life{proc: 3, number: 1}, at(500), at(1600))
	only(t, checked(b, v))
	v.outcome = cutShort // whose process died
	only(t, checked(testBook(), v))
}

func TestWhatComesTooLateToBeCheckedIsSaid(t *testing.T) {
	b := testBook()
	checked(b, sectionOf(0, 100, 110, 5, 1))
	only(t, checked(b, sectionOf(1, 30, 40, 4, 1)), "broken run", "overlap", "token", "lost update")
}
