package redlock

import (
	"strings"
	"testing"

	"github.com/go-lockguard/guard/locker"
)

// A claim that a quorum queued before another came is ahead of it, also if it
// reached a late node after the other.
func TestAWaiterHasThePlaceThatAQuorumGivesIt(t *testing.T) {
	said := func(queue string) *locker.KeyState {
		s := &locker.KeyState{Waiting: len(queue)}
		for owner := range strings.SplitSeq(queue, "") {
			s.Waiters = append(s.Waiters, locker.Waiter{Owner: owner})
		}
		return s
	}
	l := &Locker{quorum: 2}
	for _, c := range []struct {
		said []*locker.KeyState
		want string
	}{
		{[]*locker.KeyState{said("ba"), said("ab"), said("ab")}, "ab"},
		{[]*locker.KeyState{said("a"), said("ab"), said("ba")}, "ab"},
		{[]*locker.KeyState{said("ba"), said("a"), said("ab")}, "ab"},
		{[]*locker.KeyState{said("ba"), said("ab"), said("a")}, "ab"},
		{[]*locker.KeyState{said("abc"), said("cab"), said("ab")}, "abc"},
		{[]*locker.KeyState{said("ab"), nil, said("b")}, "ba"}, // a is at one node alone
		{[]*locker.KeyState{said("a"), said(""), said("b")}, "ab"},
		{[]*locker.KeyState{said(""), nil, nil}, ""},
	} {
		waiting, waiters := l.queue(c.said)
		var owners []string
		for _, w := range waiters {
			owners = append(owners, w.Owner)
		}
		if got := strings.Join(owners, ""); got != c.want || waiting != len(c.want) {
			t.Errorf("%d in %q, want %q", waiting, got, c.want)
		}
	}
}
