package redlock

import (
	"strings"
	"testing"

	"github.com/go-lockguard/guard/locker"
)

func TestTheQueueIsTheLongestInTheOrderThatMostNodesHave(t *testing.T) {
	said := func(queue string) *locker.KeyState {
		s := &locker.KeyState{Waiting: len(queue)}
		for owner := range strings.SplitSeq(queue, "") {
			s.Waiters = append(s.Waiters, locker.Waiter{Owner: owner})
		}
		return s
	}
	for _, c := range []struct {
		said []*locker.KeyState
		want string
	}{
		{[]*locker.KeyState{said("ba"), said("ab"), said("ab")}, "ab"},
		{[]*locker.KeyState{said("ab"), nil, said("b")}, "ab"},
		{[]*locker.KeyState{said("b"), said("b"), said("ab")}, "ab"},
		{[]*locker.KeyState{said(""), nil, nil}, ""},
	} {
		waiting, waiters := queue(c.said)
		var owners []string
		for _, w := range waiters {
			owners = append(owners, w.Owner)
		}
		if got := strings.Join(owners, ""); got != c.want || waiting != len(c.want) {
			t.Errorf("%d in %q, want %q", waiting, got, c.want)
		}
	}
}
