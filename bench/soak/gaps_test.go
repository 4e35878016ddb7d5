package main

import (
	"slices"
	"testing"
	"time"
)

// waited is a call that waited and did not get the key.
func waited(proc, asked, gaveUp int) visit {
	return visit{proc: proc, life: 1, outcome: held, asked: at(asked), bound: int64(10 * time.Second), began: at(gaveUp)}
}

// next is the section that ends a gap; it had waited for so long.
func next(began, waited int, n int64) visit {
	v := sectionOf(1, began, began+10, 9, n)
	v.asked, v.bound = at(began-waited), int64(10*time.Second)
	return v
}

func longest(b *book, kind string) time.Duration {
	if t := b.gaps[kind]; t != nil {
		return t.longest
	}
	return 0
}

func TestAGapIsAsLongAsSomebodyWaited(t *testing.T) {
	for _, c := range []struct {
		what   string
		visits []visit
		stop   span
		want   time.Duration
	}{
		{"nobody but the next", []visit{next(600, 100, 2)}, span{}, 100 * time.Millisecond},
		{"one after the other", []visit{waited(2, -50, 300), waited(3, 200, 550), next(600, 100, 2)}, span{}, 590 * time.Millisecond},
		{"with a break", []visit{waited(2, -50, 300), next(600, 100, 2)}, span{}, 290 * time.Millisecond},
		{"in a process that was frozen", []visit{waited(2, -50, 700), next(600, 100, 2)}, span{at(50), at(450)}, 150 * time.Millisecond},
	} {
		b := testBook()
		if c.stop.to > 0 {
			b.stopped(&life{proc: 2, number: 1}, c.stop.from, c.stop.to)
		}
		checked(b, append(c.visits, sectionOf(0, 0, 10, 5, 1))...)
		if got := longest(b, "none"); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestAKillMayCostAHoldersTTLOrAWaitersOffer(t *testing.T) {
	kill := func(role string) *fault {
		return &fault{kind: "kill", from: at(5), to: at(1005), roles: map[int]string{0: role}}
	}
	for _, c := range []struct {
		faults []*fault
		gap    int
		kind   string
		broken bool
	}{
		{[]*fault{kill("holder")}, 2900, "kill of a holder", false},
		{[]*fault{kill("holder")}, 3100, "kill of a holder", true},
		{[]*fault{kill("waiter")}, 1900, "kill of a waiter", false},
		{[]*fault{kill("waiter")}, 2100, "kill of a waiter", true},
		{[]*fault{{kind: "pause", from: at(5), to: at(3005)}}, 3100, "pause", false},
		{[]*fault{{kind: "pause", from: at(5), to: at(3005)}, kill("waiter")}, 3100, "several", false},
		{[]*fault{kill("holder"), {kind: "stop", from: at(6000), to: at(6500)}}, 7000, "kill of a holder", true}, // it came after
		{nil, 2100, "none", true},
	} {
		b := testBook()
		b.faults = c.faults
		violations := checked(b, sectionOf(0, 0, 10, 5, 1), next(10+c.gap, c.gap+20, 2))
		if got := longest(b, c.kind); got != time.Duration(c.gap)*time.Millisecond {
			t.Errorf("%v: %v after %q, want %d ms", c.faults, got, c.kind, c.gap)
		}
		if c.broken != (violations["gap"] == 1) {
			t.Errorf("%v, gap of %d ms: %v", c.faults, c.gap, violations)
		}
	}
}

func TestSpansThatTouchBecomeOne(t *testing.T) {
	var spans []span
	for _, s := range []span{{50, 60}, {10, 20}, {30, 40}, {15, 35}, {70, 80}, {52, 55}} {
		spans = merge(spans, s)
	}
	if want := []span{{10, 40}, {50, 60}, {70, 80}}; !slices.Equal(spans, want) {
		t.Errorf("%v, want %v", spans, want)
	}
}
