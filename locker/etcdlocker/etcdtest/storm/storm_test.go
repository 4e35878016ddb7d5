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
	r, err := run(t.Context(), settings{length: 8 * time.Second, processes: 3, callers: 3, ttl: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if r.failed() {
		t.Error("violations, or keys that stay, or nothing was done")
	}
}

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
	if len(r.violations) != 2 || r.fenced != 2 ||
		!strings.Contains(r.violations[0], "beside") || !strings.Contains(r.violations[1], "token") {
		t.Errorf("%v", r)
	}
}
