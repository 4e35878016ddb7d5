package limits_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
)

func TestJitterIsWithinItsBounds(t *testing.T) {
	for _, d := range []time.Duration{1, 2, time.Millisecond, time.Hour} {
		for range 1000 {
			if j := limits.Jitter(d); j < 0 || j >= d {
				t.Fatalf("%v of %v", j, d)
			}
		}
	}
}

func TestJitterRepeatsInABubble(t *testing.T) {
	draw := func() (js []time.Duration) {
		synctest.Test(t, func(*testing.T) {
			for range 100 {
				js = append(js, limits.Jitter(time.Second))
				time.Sleep(time.Millisecond)
			}
		})
		return js
	}
	end := limits.RepeatJitter()
	js := draw()
	if !slices.Equal(js, draw()) {
		t.Error("jitter does not repeat")
	}
	if end(); slices.Equal(draw(), draw()) {
		t.Error("jitter repeats without RepeatJitter")
	}
	slices.Sort(js)
	if js[10] > 300*time.Millisecond || js[89] < 700*time.Millisecond {
		t.Errorf("jitter does not spread: %v", js)
	}
}

func TestTimersThatAreSetAtOnceFireInTheirOrder(t *testing.T) {
	end := limits.RepeatJitter()
	defer end()
	synctest.Test(t, func(*testing.T) {
		var mu sync.Mutex
		var fired []int
		for i := range 100 {
			time.AfterFunc(limits.Apart(time.Second), func() {
				mu.Lock()
				defer mu.Unlock()
				fired = append(fired, i)
			})
		}
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if len(fired) != 100 || !slices.IsSorted(fired) {
			t.Errorf("they fire in the order %v", fired)
		}
	})
	if d := limits.Apart(math.MaxInt64); d != math.MaxInt64 {
		t.Errorf("for ever is %v", d)
	}
}

// A timer that is not apart makes runs of the simulation differ.
func TestTimersOfTheGuardAreApart(t *testing.T) {
	dirs := []string{
		".", "internal/turns", "internal/lockerkit", "internal/timelimit", "internal/redisconn", "locker/rowlocker",
		"locker/redislocker",
	}
	timer := regexp.MustCompile(`\b(time\.(NewTimer|AfterFunc)|context\.WithTimeout|timer\.Reset)\(`)
	seen := 0
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if strings.HasSuffix(file, "_test.go") || !timer.MatchString(line) {
					continue
				}
				if seen++; !strings.Contains(line, "limits.Apart(") {
					t.Errorf("%s: %s is set without limits.Apart", file, strings.TrimSpace(line))
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d timers were found, of more than 20", seen)
	}
}
