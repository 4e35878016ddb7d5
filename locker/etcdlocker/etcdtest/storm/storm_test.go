package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func TestMain(m *testing.M) {
	if isWorker() {
		work()
		return
	}
	os.Exit(etcdtest.Main(m.Run))
}

func TestAStormBreaksNothing(t *testing.T) {
	for _, modes := range []bool{false, true} {
		r, err := run(t.Context(),
			settings{length: 8 * time.Second, processes: 3, callers: 3, ttl: 2 * time.Second, modes: modes})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r)
		if r.failed() {
			t.Errorf("modes %v: violations, or keys that stay, or nothing was done", modes)
		}
	}
}

// The judge must see what a lock that does not work lets happen.
func TestTheJudgeSeesFaults(t *testing.T) {
	j, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	j.mu.Lock()
	one := j.enters(1, 0, 1, 5)
	j.enters(2, 0, 1, 6) // beside 1
	v := j.enters(3, 1, 1, 5)
	delete(j.inside[1], v)
	j.enters(4, 1, 1, 5) // a token twice
	j.enters(3, 2, 2, 0)
	j.enters(4, 2, 2, 0)
	j.enters(3, 2, 3, 0) // one too many for those with 2
	j.mu.Unlock()
	j.stops(2)
	j.mu.Lock()
	delete(j.inside[0], one)
	j.enters(5, 0, 1, 7) // 2 was stopped
	j.enters(2, 0, 1, 6) // and is fenced off
	j.mu.Unlock()
	r := j.close()
	if len(r.violations) != 3 || r.fenced != 2 || !r.failed() ||
		!strings.Contains(r.violations[0], "beside") || !strings.Contains(r.violations[1], "token") {
		t.Errorf("%v", r)
	}
}
