package recipes_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/tracing"
)

// lead does batches on one instance of all, until ctx ends or g is closed.
func lead(ctx context.Context, g *guard.Guard, batch func(context.Context) error) error {
	for {
		err := g.Lead(ctx, guard.Key("leader", "relay"), func(ctx context.Context) error {
			for {
				select {
				case <-guard.Wanted(ctx): // by AskLeader
					return nil
				case <-ctx.Done(): // the lease is lost, or the service ends
					return context.Cause(ctx)
				default:
				}
				if err := batch(ctx); err != nil {
					return err
				}
			}
		})
		if ctx.Err() != nil || errors.Is(err, guard.ErrClosed) {
			return err
		}
		if err != nil { // of a batch: another instance may do better
			log.Print("relay: ", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// candidate is an instance that stands for election.
type candidate struct {
	*guard.Guard

	store   *memlocker.Locker
	metrics *metric.ManualReader
	resign  context.CancelFunc
	ended   chan error

	mu      sync.Mutex // guards the fields below
	lines   []string   // of its log, about elections
	batches int
	fail    error // of the next batch
}

// Enabled and the others make a handler of a log.
func (c *candidate) Enabled(context.Context, slog.Level) bool { return true }
func (c *candidate) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *candidate) WithGroup(string) slog.Handler            { return c }
func (c *candidate) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line := strings.TrimPrefix(r.Message, "guard: "); slices.Contains(ofTheLog, line) {
		c.lines = append(c.lines, line)
	}
	return nil
}

// work is a batch of a second.
func (c *candidate) work(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches++
	defer func() { c.fail = nil }()
	return c.fail
}

// candidates are three instances, which begin one after the other.
func candidates(t *testing.T) []*candidate {
	t.Helper()
	store, all := memlocker.New(), make([]*candidate, 3)
	for i := range all {
		c := &candidate{store: store, metrics: metric.NewManualReader(), ended: make(chan error, 1)}
		if i > 0 {
			c.store = store.Peer()
		}
		provider := metric.NewMeterProvider(metric.WithReader(c.metrics))
		obs, err := tracing.New(tracing.WithMeterProvider(provider))
		if err != nil {
			t.Fatal(err)
		}
		g, err := guard.New(c.store, guard.WithName("leader"), guard.WithObserver(obs), guard.WithLogger(slog.New(c)))
		c.Guard = closeAtEnd(t, g, err)
		ctx, cancel := context.WithCancel(t.Context())
		c.resign = cancel
		go func() { c.ended <- lead(ctx, c.Guard, c.work) }() // ends with resign
		time.Sleep(time.Millisecond)
		all[i] = c
	}
	return all
}

// want wants the lines that the log has had since, and what a scrape finds.
func (c *candidate) want(t *testing.T, leads bool, lines ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	got := c.lines
	c.lines = nil
	c.mu.Unlock()
	if !slices.Equal(got, lines) {
		t.Errorf("logged %q, want %q", got, lines)
	}
	found := map[string]int64{"guard.leases": -1, "guard.waiters": -1}
	var rm metricdata.ResourceMetrics
	if err := c.metrics.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && found[m.Name] == -1 {
			found[m.Name] = sum.DataPoints[0].Value
		}
	}
	if n := found["guard.leases"]; n != map[bool]int64{true: 1, false: 0}[leads] {
		t.Errorf("guard.leases is %d, and it leads: %v", n, leads)
	}
	if n := found["guard.waiters"]; n != map[bool]int64{true: 0, false: 1}[leads] {
		t.Errorf("guard.waiters is %d, and it leads: %v", n, leads)
	}
}

// The lines of the log in the order of the page's table.
const (
	elected  = "elected: this process leads"
	returned = "the election is over: fn has returned, and Lead with it"
	lost     = "leads no more: the lease is lost; it stands for election again"
	told     = "leads no more: it was told to end"
)

var ofTheLog = []string{elected, returned, lost, told}

func TestThePageOnLeadersHasTheLinesOfTheLog(t *testing.T) {
	for _, p := range []string{"leader.md", "leader.zh-CN.md"} {
		var found []string
		for _, s := range page(t, p).Sections {
			for _, table := range s.Tables {
				for _, row := range table.Rows[1:] {
					if line, ok := strings.CutPrefix(row[0], "`guard: "); ok {
						found = append(found, strings.TrimSuffix(line, "`"))
					}
				}
			}
		}
		if !slices.Equal(found, ofTheLog) {
			t.Errorf("%s has %q, want %q", p, found, ofTheLog)
		}
	}
}

func TestOneInstanceLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := candidates(t)
		a, b, c := all[0], all[1], all[2]
		time.Sleep(10*time.Second + 500*time.Millisecond)
		a.want(t, true, elected)
		b.want(t, false)
		c.want(t, false)

		ctx, g := t.Context(), c.Guard
		asked, err := g.AskLeader(ctx, guard.Key("leader", "relay"))
		if err != nil || !asked {
			t.Errorf("AskLeader: %v, %v", asked, err)
		}
		a.want(t, false, returned) // it stands for election again
		b.want(t, true, elected)
		if a.batches != 11 || b.batches != 0 {
			t.Errorf("%d and %d batches: the last one was not ended first", a.batches, b.batches)
		}

		state, err := c.Inspect(t.Context(), guard.Key("leader", "relay"))
		if err = errors.Join(err, c.ForceRelease(t.Context(), guard.Key("leader", "relay"), state.Owner)); err != nil {
			t.Error(err)
		}
		time.Sleep(4 * time.Second) // until the next renewal
		b.want(t, false, lost)
		c.want(t, true, elected)

		c.mu.Lock()
		c.fail = errors.New("broken")
		c.mu.Unlock()
		time.Sleep(3 * time.Second)
		c.want(t, false, returned)
		a.want(t, true, elected)

		a.resign()
		if err := <-a.ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		b.want(t, true, elected)
		if got := a.lines; !slices.Equal(got, []string{told}) {
			t.Errorf("logged %q", got)
		}
		b.resign()
		c.resign()
		for _, s := range []*candidate{b, c} {
			if err := <-s.ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}
