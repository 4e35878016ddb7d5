package turns

import (
	"testing"
	"time"
)

// A process that was stopped finds its lease lost long after the loss.
func TestALossCountsFromTheDeadlineIfThatHasPassed(t *testing.T) {
	now := time.Now()
	for left, want := range map[time.Duration]time.Duration{time.Second: 0, 0: 0, -time.Minute: -time.Minute} {
		end := now.Add(left)
		gr := &grant{trust: trust{mono: end, wall: end.Round(0)}}
		if got := gr.endedBy(now).Sub(now); got != want {
			t.Errorf("with %v left it ended %v from now, want %v", left, got, want)
		}
	}
}
