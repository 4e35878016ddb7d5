package redlock

import (
	"errors"
	"testing"

	"github.com/go-lockguard/guard/locker"
)

func TestOnlyTheLastRequestOfAClaimThatIsOverHasASeat(t *testing.T) {
	for _, heir := range []bool{false, true} { // given up, or released
		b := &ballot{seats: make([]seat, 3)}
		b.close(heir)
		for i := range b.seats {
			if _, err := b.take(t.Context(), i, false); !errors.Is(err, errOver) {
				t.Errorf("heir %v: a late request for seat %d: %v, want %v", heir, i, err, errOver)
			}
			if _, err := b.take(t.Context(), i, true); err != nil {
				t.Errorf("heir %v: the last request for seat %d: %v", heir, i, err)
			}
		}
	}
}

// A node may refuse the token of a key that it has given. It then takes back
// the key by itself, at any time.
func TestAVoteThatTheNodeTakesBackByItselfIsNotAskedForAgain(t *testing.T) {
	b := &ballot{seats: make([]seat, 1)}
	if _, err := b.take(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}
	b.cast(0, false, locker.Answer{Queued: true}, &refusalError{})
	if _, err := b.take(t.Context(), 0, false); !errors.Is(err, errDead) {
		t.Errorf("%v, want errDead", err)
	}
}
