package memlocker

import (
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

func TestALookKeepsThePlace(t *testing.T) {
	w := peers(t, "a", "b")
	w.acquire(0, claim("a", "k"))
	b := claim("b", "k")
	if place, again := w.wait(1, b), w.wait(1, b); again != place {
		t.Errorf("looking again moved from place %d to %d", place, again)
	}
}

func TestGrantForNobodyGoesOn(t *testing.T) {
	w := peers(t, "a", "b", "closed", "c")
	a, c := claim("a", "k"), claim("c", "k")
	w.acquire(0, a)
	w.wait(1, claim("b", "k"))
	w.wait(2, claim("x", "k"))
	w.wait(3, c)
	w.told = nil
	if err := w.ls[2].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.release(0, a, nil, 2)
	w.release(1, claim("b", "k"), nil, 1)
	w.wantTold("b granted k as b, 1 behind", "c granted k as c, 0 behind")
	w.release(3, c, nil, 0)
}

// No lock is held while a peer is told.
func TestWakerMayCallBack(t *testing.T) {
	l := New()
	peer := l.Peer()
	a, b := claim("a", "k"), claim("b", "k")
	looked, renewed := errors.New("never wanted"), errors.New("never granted")
	wanted := func() { _, looked = locker.Findings(peer.Check(t.Context(), time.Second)) }
	if err := l.Open(hears{f: wanted}); err != nil {
		t.Fatal(err)
	}
	grant := func() {
		peer.Renew(t.Context(), []*locker.Claim{b}, func(_ int, err error) { renewed = err })
		_, checked := locker.Findings(l.Check(t.Context(), 0))
		renewed = errors.Join(renewed, checked)
	}
	if err := peer.Open(hears{f: grant}); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, ls: []*Locker{l, peer}}
	w.acquire(0, a)
	w.wait(1, b)
	w.release(0, a, nil, 1)
	if looked != nil || renewed != nil {
		t.Fatalf("Check from Wanted: %v; Renew from Granted: %v", looked, renewed)
	}
}

// A claim that leaves the queue because its locker closes makes room as one
// that is given up does (law 3).
func TestCloseServesThoseBehindTheClaimsThatItTakesOut(t *testing.T) {
	w := peers(t, "a", "b", "c")
	reader, writer, behind := claim("r", "k"), claim("w", "k"), claim("r2", "k")
	reader.Limit, behind.Limit = locker.NoLimit, locker.NoLimit
	w.acquire(0, reader)
	w.wait(1, writer)
	w.wait(2, behind)
	w.told = nil
	if err := w.ls[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantTold("c granted k as r2, 0 behind")
}
