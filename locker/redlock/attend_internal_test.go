package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

func TestWhatIsDueEarlierIsAttendedToEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		attended := make(map[*ballot]time.Duration)
		a := newAgenda(nil)
		a.act = func(b *ballot) { attended[b] = time.Since(start) }
		first, second := &ballot{}, &ballot{}
		a.add(first, time.Hour)
		a.add(second, 2*time.Hour)
		a.add(second, time.Minute)
		a.add(second, 3*time.Hour)
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		if attended[first] != time.Hour || attended[second] != time.Minute {
			t.Errorf("attended to after %v and %v, want 1h and 1m", attended[first], attended[second])
		}
		a.close()
	})
}

// A vote is given back if a request brings it after its claim was released.
// That is true also of a node that had answered the release.
func TestAVoteThatComesAfterTheReleaseIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		c := newClaim(30 * time.Second)
		if !acquires(t, l, c) {
			t.Fatal("three nodes were no quorum")
		}
		synctest.Wait()
		b := l.ballot(c, false)
		b.mu.Lock()
		b.seats[2].unclear = true // as if an earlier request had no answer
		b.mu.Unlock()
		if _, err := l.Release(t.Context(), c, locker.End{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := nodes[2].Set("guard:{k}", c.Owner); err != nil { // now it arrives
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if nodes[2].Exists("guard:{k}") {
			t.Error("the vote is left to its TTL")
		}
	})
}

// A renewal that is answered after its claim was given up keeps nothing of it.
func TestWhatWasAbandonedStaysForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		c := newClaim(30 * time.Second)
		if !acquires(t, l, c) {
			t.Fatal("three nodes were no quorum")
		}
		r := newRenewals(l, []*locker.Claim{c}, func(int, error) {})
		_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
		r.tell(0, nil) // the answers to it
		if l.known.find(c.Owner) != nil || l.known.owner("k") != nil {
			t.Error("it is known again")
		}
	})
}
