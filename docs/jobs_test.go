package docs_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/doccheck"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A job on a schedule, as choosing.md has it, in virtual time.

func reports(ctx context.Context, g *guard.Guard, report func(context.Context) error) {
	once := g.With(guard.WithMinHold(5*time.Minute), guard.WithMaxHold(time.Hour), guard.WithName("report")) // at start-up, once
	for every := 10 * time.Minute; ; {
		tick := time.Now().Truncate(every).Add(every) // on the wall clock: the same moment everywhere
		select {
		case <-time.After(time.Until(tick)):
		case <-ctx.Done():
			return
		}
		if _, err := once.TryDo(ctx, guard.Key("job", "report"), report); err != nil {
			log.Print("report: ", err)
		}
	}
}

// instances returns three guards on one store, closed when t ends.
func instances(t *testing.T, opts ...guard.Option) (guards []*guard.Guard) {
	t.Helper()
	store := memlocker.New()
	for _, l := range []guard.Locker{store, store.Peer(), store.Peer()} {
		g, err := guard.New(l, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		guards = append(guards, g)
	}
	return guards
}

func TestAnAlignedTickerRunsEachTickOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards runs
		runs := map[time.Time]int{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour+time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for i, g := range instances(t) {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Minute) // started one after the other
				reports(ctx, g, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					runs[time.Now().Truncate(10*time.Minute)]++
					return nil
				})
			})
		}
		wg.Wait()
		for tick, n := range runs {
			if n != 1 {
				t.Errorf("%d runs at %v", n, tick)
			}
		}
		if len(runs) != 60 {
			t.Errorf("%d ticks of 60 were run", len(runs))
		}
	})
}

// simulated returns how often a short job runs whose ticks come at these
// moments on the three instances.
func simulated(t *testing.T, minHold time.Duration, ticks [3][]time.Duration) (runs int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex // guards runs
		var wg sync.WaitGroup
		for i, g := range instances(t, guard.WithMinHold(minHold)) {
			wg.Go(func() {
				for _, tick := range ticks[i] {
					time.Sleep(time.Until(began.Add(tick)))
					_, err := g.TryDo(t.Context(), "job:report", func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						runs++
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
	return runs
}

func TestTheTableOfSchedulesIsRight(t *testing.T) {
	var aligned, own [3][]time.Duration
	for i, late := range []time.Duration{0, 40 * time.Millisecond, 100 * time.Millisecond} {
		began := []time.Duration{0, 3 * time.Second, 7 * time.Second}[i]
		for tick := 10 * time.Second; tick <= 40*time.Second; tick += 10 * time.Second {
			aligned[i] = append(aligned[i], tick+late)
			own[i] = append(own[i], began+tick)
		}
	}
	var want [][]string
	for _, c := range []struct {
		ticks   [3][]time.Duration
		minHold time.Duration
	}{{aligned, 0}, {aligned, 5 * time.Second}, {aligned, 11 * time.Second}, {own, 0}, {own, 5 * time.Second}} {
		held := "none"
		if c.minHold > 0 {
			held = fmt.Sprintf("%d s", c.minHold/time.Second)
		}
		want = append(want, []string{held, strconv.Itoa(simulated(t, c.minHold, c.ticks))})
	}
	rows := tableOf(t, "choosing.md", "A job on a schedule").Rows[1:]
	if len(rows) != len(want) {
		t.Fatalf("the table has %d rows, want %q", len(rows), want)
	}
	for i, row := range rows {
		if !strings.HasPrefix(row[1], want[i][0]) || row[2] != want[i][1] {
			t.Errorf("row %d is %q, want %q", i+1, row, want[i])
		}
	}
}

// tableOf returns the first table of a section of a page in this directory.
func tableOf(t *testing.T, page, title string) doccheck.Table {
	t.Helper()
	for _, s := range load(t, page).Sections {
		if s.Title == title && len(s.Tables) > 0 {
			return s.Tables[0]
		}
	}
	t.Fatalf("%s: no table in %q", page, title)
	return doccheck.Table{}
}
