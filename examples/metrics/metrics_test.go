package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// value returns what text says of the guard's series with this name and these
// labels, "" if there is none.
func value(text, name string, labels ...string) string {
	labels = append(labels, `guard_name="stock"`)
lines:
	for line := range strings.Lines(text) {
		series, v, _ := strings.Cut(strings.TrimSpace(line), "} ")
		n, set, _ := strings.Cut(series, "{")
		if n != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(","+set+",", ","+l+",") {
				continue lines
			}
		}
		return v
	}
	return ""
}

func TestWhatPrometheusScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obs, scraped, err := observe()
		if err != nil {
			t.Fatal(err)
		}
		mem := memlocker.New()
		g, err := guard.New(mem, guard.WithName("stock"), guard.WithObserver(obs))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close(t.Context()) }()
		key := guard.Key("stock", "42")
		check := func(text, want, name string, labels ...string) {
			t.Helper()
			if got := value(text, name, labels...); got != want {
				t.Errorf("%s%q is %q, want %q, in\n%s", name, labels, got, want, text)
			}
		}

		text := scrape(t, scraped) // before the first call
		for _, outcome := range []string{"acquired", "unavailable"} {
			check(text, "0", "guard_waits_total", `guard_outcome="`+outcome+`"`)
		}
		err = g.Do(t.Context(), key, func(context.Context) error {
			time.Sleep(2 * time.Second) // not yet a renewal
			for _, reason := range []string{"deadline", "taken", "forced", "max_hold", "closed"} {
				check(text, "0", "guard_leases_lost_total", `guard_reason="`+reason+`"`)
			}
			for _, outcome := range []string{"renewed", "lost", "unavailable"} {
				check(text, "0", "guard_renewals_total", `guard_outcome="`+outcome+`"`)
			}
			text := scrape(t, scraped)
			check(text, "1", "guard_leases")
			check(text, "2", "guard_hold_oldest_seconds")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = g.Do(t.Context(), key, func(ctx context.Context) error {
			mem.Lose(key)
			<-ctx.Done() // the next renewal finds out
			return ctx.Err()
		})
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Fatal(err)
		}
		synctest.Wait() // the renewal is told after the loss
		text = scrape(t, scraped)
		check(text, "1", "guard_leases_lost_total", `guard_outcome="lost"`, `guard_reason="taken"`)
		check(text, "1", "guard_renewals_total", `guard_outcome="lost"`)
		check(text, "1", "guard_hold_duration_seconds_bucket", `guard_outcome="released"`, `le="120"`)
		check(text, "0", "guard_hold_duration_seconds_bucket", `guard_outcome="released"`, `le="1"`)
		check(text, "1", "guard_hold_duration_seconds_count", `guard_outcome="lost"`)
		check(text, "2", "guard_wait_duration_seconds_count", `guard_outcome="acquired"`)
		check(text, "0", "guard_hold_oldest_seconds")
		check(text, "0", "guard_leases")
		check(text, "0", "guard_waiters")

		if _, err := guard.Once(t.Context(), g, "receipt", time.Hour, func(context.Context) (int, error) {
			return 1, nil
		}); err != nil {
			t.Error(err)
		}
		text = scrape(t, scraped)
		check(text, "1", "guard_results_total", `guard_outcome="recorded"`)
		for _, name := range watched(t) {
			if !strings.Contains(text, "\n# TYPE "+name+" ") {
				t.Errorf("docs/operations.md watches %s, which is not in\n%s", name, text)
			}
		}
	})
}

// watched returns the metrics that docs/operations.md has people watch.
func watched(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(b), "\n## What to watch\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(guard_\\w+)`").FindAllStringSubmatch(table, -1) {
		names = append(names, row[1])
	}
	if len(names) < 4 {
		t.Fatalf("the table names only %q", names)
	}
	return names
}
