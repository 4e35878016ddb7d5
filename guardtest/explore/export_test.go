package explore

import (
	"time"

	"github.com/go-lockguard/guard/internal/testsize"
)

// Stats are what a search has done.
type Stats = stats

func Without(names ...string) Option {
	return func(s *settings) {
		for _, n := range names {
			s.not = append(s.not, kind(n))
		}
	}
}

// Twice does each run twice.
func Twice() Option { return func(s *settings) { s.twice = true } }

// Count tells st what the search has done.
func Count(st *Stats) Option { return func(s *settings) { s.stats = st } }

// SetPatience sets how long a run may stand still.
func SetPatience(d time.Duration) (restore func()) {
	before := patient
	patient = d
	return func() { patient = before }
}

// Depth is full, or raced under the race detector. For each bubble the race
// detector keeps some 100 KB for good, and runs are slow. The step fuzz of
// scripts/test has no race detector, so all runs are done there.
func Depth(full, raced int) int {
	if raceBuild {
		return raced
	}
	return testsize.Pick(full, raced)
}
