package explore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
)

// Each line of a story says once what came of a request.
func TestAStoryReadsWell(t *testing.T) {
	do := func(w *World, then error) func(context.Context, *guard.Guard) error {
		return func(ctx context.Context, g *guard.Guard) error {
			return g.Do(ctx, "b", func(ctx context.Context) error {
				return errors.Join(w.Step(ctx, "work", func() error { return nil }), then)
			})
		}
	}
	all := func(w *World) {
		w.Go("A", do(w, nil))
		w.Go("B", func(ctx context.Context, g *guard.Guard) error {
			return g.DoAll(ctx, []string{"a", "b"}, func(context.Context) error { return nil })
		})
	}
	nested := func(w *World) {
		w.Go("A", func(ctx context.Context, g *guard.Guard) error {
			return g.Do(ctx, "a", func(ctx context.Context) error { return do(w, nil)(ctx, g) })
		})
	}
	for name, c := range map[string]struct {
		scenario  func(*World)
		plan      plan
		says, not string
		page      string
	}{
		"two keys":    {all, nil, "has a, b\n", "B          take", "testing-crashes.md"},
		"one is held": {all, plan{{"A/work", yield}}, "has a, and not b\n", "B          take", "choosing.md#a-lock"},
		"no answer": {
			all,
			plan{{"B/take-a-b", pause}},
			"before: take a, b\n", "held",
			"choosing.md#the-fencing-token",
		},
		"a lost lease": {
			func(w *World) { w.Go("A", do(w, nil)) },
			plan{{"A/free-b", flush}},
			"no longer has b\n", "frees", "faults.md",
		},
		"two lost leases": {
			nested,
			plan{{"A/work", pause}},
			"this process was stopped\n", "stopped: guard: lease lost",
			"choosing.md#the-fencing-token",
		},
		"a client that gives up": {
			func(w *World) { w.Deliver("A", do(w, errors.New("no"))) },
			plan{{"A/work", crash}},
			"gives up)", "frees b: ", "testing-crashes.md#the-scenario",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSearch(t, c.scenario, nil).run(c.plan)
			story := r.story(0)
			if !strings.Contains(story, c.says) || strings.Contains(story, c.not) {
				t.Errorf("want %q and not %q in\n%s", c.says, c.not, story)
			}
			if page := r.page(); page != c.page {
				t.Errorf("page %q, want %q", page, c.page)
			}
		})
	}
}
