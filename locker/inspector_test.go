package locker_test

import (
	"testing"

	"github.com/go-lockguard/guard/locker"
)

func TestSharedSaysHowManyHaveTheKey(t *testing.T) {
	for want, s := range map[string]locker.KeyState{
		"":                              {Held: true, Owner: "a"},
		"shared by 1":                   {Limit: locker.NoLimit, Owners: make([]locker.Waiter, 1)},
		"shared by at least 1000":       {Limit: locker.NoLimit, Owners: make([]locker.Waiter, locker.MaxListed)},
		"2 of 4 permits":                {Limit: 4, Owners: make([]locker.Waiter, 2)},
		"3 of 2 permits":                {Limit: 2, Owners: make([]locker.Waiter, 3)}, // while a rollout lowers it
		"at least 1000 of 2000 permits": {Limit: 2000, Owners: make([]locker.Waiter, locker.MaxListed)},
	} {
		if got := s.Shared(); got != want {
			t.Errorf("%d owners of %d: %q, want %q", len(s.Owners), s.Limit, got, want)
		}
	}
}
