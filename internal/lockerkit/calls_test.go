package lockerkit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

type calls = lockerkit.Calls[string, int]

func length(q *string) int { return len(*q) }

// post leaves requests to the workers.
func post(t *testing.T, cs calls, qs ...string) (posted []*lockerkit.Call[string, int]) {
	t.Helper()
	for _, q := range qs {
		c, err := cs.Post(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		posted = append(posted, c...)
	}
	return posted
}

func requests(batch []*lockerkit.Call[string, int]) (qs []string) {
	for _, c := range batch {
		qs = append(qs, c.Request)
	}
	return qs
}

func TestCallsTravelTogetherAsFarAsThereIsRoom(t *testing.T) {
	for _, c := range []struct {
		name       string
		most, room int
		want       []string
	}{
		{"all", 10, 10, []string{"a", "bb", "ccc"}},
		{"two at most", 2, 10, []string{"a", "bb"}},
		{"what exceeds the room is the last", 10, 2, []string{"a", "bb"}},
		{"the first always goes", 10, 0, []string{"a"}},
	} {
		cs := make(calls, 3)
		post(t, cs, "a", "bb", "ccc")
		batch, _ := cs.Gather(<-cs, c.most, c.room, length)
		if got := requests(batch); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCallsThatArePostedTogetherComeTogether(t *testing.T) {
	cs := make(calls, 2)
	for range cap(cs) {
		if _, err := cs.Post(t.Context(), "a", "b", "c"); err != nil {
			t.Fatal(err)
		}
	}
	first := <-cs
	if got := requests(first); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q come together", got)
	}
	batch, rest := cs.Gather(first, 4, 10, length)
	if got := append(requests(batch), requests(rest)...); len(batch) != 4 || len(got) != 6 {
		t.Errorf("%q and the rest %q, want four and two", requests(batch), requests(rest))
	}
	if batch, rest = cs.Gather(rest, 4, 10, length); len(batch) != 2 || len(rest) != 0 {
		t.Errorf("%q and the rest %q, want what was left", requests(batch), requests(rest))
	}
}

func TestACallIsAnsweredOnce(t *testing.T) {
	cs := make(calls, 3)
	posted := post(t, cs, "a", "bb", "ccc")
	batch, _ := cs.Gather(<-cs, 10, 10, length)
	for _, c := range batch {
		if c.Take() {
			t.Errorf("%q is taken twice", c.Request)
		}
		c.Answer(len(c.Request))
	}
	for i, c := range posted {
		if r, unsent, err := c.Wait(); r != i+1 || unsent || err != nil {
			t.Errorf("%q: %d, unsent %v, %v", c.Request, r, unsent, err)
		}
	}
}

// A caller that gives up must know whether its request may still be carried
// out.
func TestACallerThatGivesUpLearnsWhetherAWorkerHasItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := make(calls, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late, err := cs.Post(ctx, "late")
		if err != nil {
			t.Fatal(err)
		}
		if batch, _ := cs.Gather(<-cs, 10, 10, length); len(batch) != 1 {
			t.Fatalf("%d calls, want one", len(batch))
		}
		waits, err := cs.Post(ctx, "waits")
		if err != nil {
			t.Fatal(err)
		}
		if _, unsent, err := late[0].Wait(); unsent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that a worker has taken: unsent %v, %v", unsent, err)
		}
		if _, unsent, err := waits[0].Wait(); !unsent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that no worker has taken: unsent %v, %v", unsent, err)
		}
		if batch, _ := cs.Gather(<-cs, 10, 10, length); len(batch) != 0 {
			t.Errorf("a worker took %q after its caller had given up", requests(batch))
		}
		late[0].Answer(1) // does not block
		if _, err := cs.Post(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that has given up before: %v", err)
		}
		if len(cs) > 0 {
			t.Error("a call that has given up before is left to the workers")
		}
	})
}

func TestACallerThatFindsNoRoomGivesUpUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := make(calls)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, unsent, err := cs.Do(ctx, "x"); !unsent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("unsent %v, %v", unsent, err)
		}
	})
}

func TestABatchHasThePatienceOfItsMostPatientCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := make(calls, 3)
		now := time.Now()
		for _, limit := range []time.Duration{time.Second, 3 * time.Second, 2 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if _, err := cs.Post(ctx, "x"); err != nil {
				t.Fatal(err)
			}
		}
		batch, _ := cs.Gather(<-cs, 10, 10, length)
		if got := lockerkit.Patience(batch, time.Minute).Sub(now); got != 3*time.Second {
			t.Errorf("%v, want 3s", got)
		}
		batch = append(batch, post(t, cs, "without a deadline")...)
		if got := lockerkit.Patience(batch, time.Minute).Sub(now); got != time.Minute {
			t.Errorf("beside a call without a deadline %v, want 1m", got)
		}
	})
}

// A process that stood still finds both.
func TestAnAnswerCountsThoughTheTimeIsOver(t *testing.T) {
	calls := make(lockerkit.Calls[int, int], 1)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := calls.Post(ctx, 1)
		if err != nil || !(<-calls)[0].Take() {
			t.Fatal(err)
		}
		c[0].Answer(2)
		cancel()
		if r, unsent, err := c[0].Wait(); r != 2 || unsent || err != nil {
			t.Fatalf("%d, unsent %v, %v, want the answer", r, unsent, err)
		}
	}
}
