package lockerkit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

func TestPaceIsTheLeastOfThreeAndEndsEarly(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		took  []time.Duration
		least time.Duration
		calls int
	}{
		{[]time.Duration{5 * ms}, 5 * ms, 1},
		{[]time.Duration{298 * ms, 10 * ms}, 10 * ms, 2},
		{[]time.Duration{298 * ms, 290 * ms, 299 * ms, 1 * ms}, 290 * ms, 3},
	} {
		calls := 0
		least, err := lockerkit.Pace(10*ms, func() (time.Duration, error) {
			calls++
			return row.took[calls-1], nil
		})
		if err != nil || least != row.least || calls != row.calls {
			t.Errorf("%v: %v after %d probes, %v", row.took, least, calls, err)
		}
	}
	wrong := errors.New("no answer")
	if _, err := lockerkit.Pace(0, func() (time.Duration, error) { return 0, wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	for ttl, want := range map[time.Duration]time.Duration{time.Second: 100 * ms, time.Minute: 250 * ms} {
		if most := lockerkit.MaxPace(ttl); most != want {
			t.Errorf("%v for a TTL of %v, want %v", most, ttl, want)
		}
	}
}
