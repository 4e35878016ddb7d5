package judge_test

import (
	"testing"

	"github.com/go-lockguard/guard/internal/judge"
)

type guest struct{ number, limit int }

func (g guest) AtMost() int { return g.limit }

func TestEnter_CountsAgainstTheStrictestLimit(t *testing.T) {
	late := guest{9, 0}
	f := judge.Floor[guest]{Excused: func(g guest) bool { return g == late }}
	for i, c := range []struct{ limit, n, most int }{
		{0, 1, 1}, // alone
		{1, 2, 1}, // beside it
		{3, 3, 1},
	} {
		if n, most := f.Enter(guest{i, c.limit}); n != c.n || most != c.most {
			t.Errorf("guest %d: %d where %d may be, want %d and %d", i, n, most, c.n, c.most)
		}
	}
	f.Leave(func(g guest) bool { return g.limit <= 1 })
	if n, _ := f.Enter(late); n != 0 {
		t.Errorf("an excused guest is one of %d", n)
	}
	if n, most := f.Enter(guest{4, 2}); n != 2 || most != 2 {
		t.Errorf("beside one with 3: %d where %d may be", n, most)
	}
	if n, most := f.Enter(guest{5, 3}); n != 3 || most != 2 {
		t.Errorf("one too many: %d where %d may be", n, most)
	}
}
