package lockerkit

import (
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Finding returns a finding of the package that is named store.
func Finding(store, name string, severity locker.Severity, format string, args ...any) error {
	return &locker.Finding{Name: name, Severity: severity, Text: store + ": " + fmt.Sprintf(format, args...)}
}

// Near is how long an acquire takes that need not become faster.
const Near = 40 * time.Millisecond

// MaxPace returns the most time that a request of Check may take with a TTL.
// That is a tenth of the TTL, for a try to renew has a sixth, and less than the
// limit of a try, which is 500 ms at most.
func MaxPace(ttl time.Duration) time.Duration { return min(ttl/10, 250*time.Millisecond) }

// Pace returns the least time of up to three probes, so that one that a busy
// machine delays says nothing of the way to the server. Pace makes no more of
// them once one took no more than enough.
func Pace(enough time.Duration, probe func() (time.Duration, error)) (least time.Duration, err error) {
	for i := range 3 {
		took, err := probe()
		if err != nil {
			return 0, err
		}
		if i == 0 || took < least {
			least = took
		}
		if least <= enough {
			break
		}
	}
	return least, nil
}
