package memlocker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

func TestReleaseGrantsInOrderOfFirstWaitAndQueuesTheReleaserBehind(t *testing.T) {
	w := peers(t, "a", "b", "c")
	a, b, c, a2 := claim("a", "k"), claim("b", "k"), claim("c", "k"), claim("a2", "k")
	w.acquire(0, a)
	place := w.wait(1, b)
	w.wait(2, c)
	if again := w.wait(1, b); again != place {
		t.Fatalf("looking again moved from place %d to %d", place, again)
	}
	w.wantTold("a wanted k", "a wanted k")

	w.release(0, a, a2, 2)
	w.release(1, b, nil, 2)
	w.release(2, c, nil, 1)
	w.wantTold("b granted k as b, 2 behind", "c granted k as c, 1 behind", "a granted k as a2, 0 behind")
	w.release(0, a2, claim("a3", "k"), 0)
	w.wantTold()
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

func TestOwnerIDIsQueuedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := peers(t, "a", "b", "c")
		a, b, c := claim("a", "k"), claim("b", "k"), claim("c", "k")
		w.acquire(0, a)
		place := w.wait(1, b)
		w.release(0, a, nil, 1)
		time.Sleep(b.LongOffer())
		w.acquire(0, a)
		w.wait(2, c)
		if late := w.try(1, b, locker.Try{Wait: true, Queued: true}); late.Queued {
			t.Fatalf("a claim that came too late is queued again: %+v", late)
		}
		b2 := claim("b2", "k")
		if again := w.try(1, b2, locker.Try{Wait: true, Place: place}); again.Place != place {
			t.Fatalf("place %d, want %d again", again.Place, place)
		}
		w.told = nil
		w.release(0, a, nil, 2)
		w.wantTold("b granted k as b2, 1 behind")
	})
}

func TestNobodyIsGrantedAnotherKeyOrByAStranger(t *testing.T) {
	w := peers(t, "a", "b")
	a, other := claim("a", "k"), claim("a", "other")
	w.acquire(0, a)
	w.acquire(0, other)
	w.wait(1, claim("b", "k"))
	w.told = nil
	w.release(0, other, nil, 0)
	_, err := w.ls[0].Release(t.Context(), claim("stranger", "k"), locker.End{})
	if !errors.Is(err, locker.ErrLeaseLost) {
		t.Fatalf("Release by a stranger: %v, want ErrLeaseLost", err)
	}
	w.wantTold()
}

func TestKeyOfNobodyIsHandedOnByALateRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, givesUp := range []bool{false, true} {
			w := peers(t, "a", "b")
			a := claim("a", "k")
			w.acquire(0, a)
			time.Sleep(a.TTL - time.Second)
			w.wait(1, claim("b", "k"))
			time.Sleep(time.Second)
			w.told = nil
			if givesUp {
				_, _ = w.ls[0].Release(t.Context(), a, locker.End{Queued: true})
			} else if _, err := w.ls[0].Release(t.Context(), a, locker.End{}); !errors.Is(err, locker.ErrLeaseLost) {
				t.Fatalf("Release: %v, want ErrLeaseLost", err)
			}
			w.wantTold("b granted k as b, 0 behind")
		}
	})
}

func TestAReleaseThatGivesUpTouchesNoOtherClaimOfItsInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := peers(t, "a", "b")
		a, b := claim("a", "k"), claim("b", "k")
		w.acquire(0, a)
		w.wait(1, b)
		_, _ = w.ls[1].Release(t.Context(), b, locker.End{Queued: true})
		b2 := claim("b2", "k")
		w.wait(1, b2)
		_, _ = w.ls[1].Release(t.Context(), b, locker.End{Queued: true}) // again
		w.wait(1, b2)
		w.told = nil
		w.release(0, a, nil, 1)
		w.wantTold("b granted k as b2, 0 behind")
	})
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

func TestQueuedClaimLivesWhileItIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := peers(t, "a", "dead", "c")
		a, dead, c := claim("a", "k"), claim("dead", "k"), claim("c", "k")
		w.acquire(0, a)
		w.wait(1, dead)
		w.wait(2, c)
		time.Sleep(locker.QueueLife - time.Nanosecond)
		w.wait(2, c)
		time.Sleep(time.Nanosecond)
		w.told = nil
		w.release(0, a, nil, 1)
		w.wantTold("c granted k as c, 0 behind")
	})
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
