package redislocker_test

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard"
)

// tokens finds tokens that fall. A lower token is no fall if its lease began
// before the lease of the other. A lost failover may leave two leases at once,
// and their sections come in any order.
type tokens struct {
	last uint64
	at   time.Time // when last came
	of   map[*guard.Guard]tenure
}

// tenure is the last section of a process.
type tenure struct {
	token uint64
	at    time.Time
	since time.Time // its lease began later: at the section before that lease, zero for none
}

// next records a token. It reports whether the token is lower than an earlier
// one, and whether its lease began after that.
func (s *tokens) next(process *guard.Guard, token uint64, now time.Time) (lower, fell bool) {
	old := s.of[process]
	on := tenure{token: token, at: now, since: old.since}
	if token != old.token+1 { // another lease
		on.since = old.at
	}
	if s.of == nil {
		s.of = make(map[*guard.Guard]tenure)
	}
	s.of[process] = on
	if token < s.last {
		return true, on.since.After(s.at)
	}
	s.last, s.at = token, now
	return false, false
}

func TestTokensThatFallAreTold(t *testing.T) {
	a, b := &guard.Guard{}, &guard.Guard{}
	start := time.Now()
	var s tokens
	for i, next := range []struct {
		process     *guard.Guard
		token       uint64
		lower, fell bool
	}{
		{a, 100, false, false},
		{b, 50, true, false}, // b may have got it before a
		{b, 51, true, false},
		{a, 101, false, false},
		{b, 200, false, false},
		{a, 102, true, false}, // of the lease that a had
		{a, 150, true, true},  // of another, which a got when b's had come
	} {
		lower, fell := s.next(next.process, next.token, start.Add(time.Duration(i)*time.Second))
		if lower != next.lower || fell != next.fell {
			t.Errorf("%d: lower %v, fell %v, want %v and %v", next.token, lower, fell, next.lower, next.fell)
		}
	}
}
