//go:build unix

package sqlstorm

import (
	"strings"
	"testing"
)

// The judge must see what a lock that does not work lets happen.
func TestTheJudgeSeesFaults(t *testing.T) {
	j, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	j.enters(1, 0, 5)
	j.enters(2, 0, 6) // beside 1
	j.enters(3, 1, 5)
	j.inside[1] = nil
	j.enters(4, 1, 5) // a token twice
	j.mu.Unlock()
	j.stops(2)
	j.mu.Lock()
	j.enters(5, 0, 7) // 2 was stopped
	j.enters(2, 0, 6) // and is fenced off
	j.mu.Unlock()
	r := j.close()
	if len(r.violations) != 2 || r.fenced != 2 || !r.Failed() ||
		!strings.Contains(r.violations[0], "beside") || !strings.Contains(r.violations[1], "token") {
		t.Errorf("%v", r)
	}
}
