package redlock

import (
	"errors"
	"testing"
)

func TestOnlyTheLastRequestOfAClaimThatIsOverHasASeat(t *testing.T) {
	for _, heir := range []bool{false, true} { // abandoned, or released
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
