package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/locker/redlock"
)

// examined is a locker whose Check answers err.
type examined struct {
	guard.Locker
	err error
}

func (e examined) Check(context.Context, time.Duration) error { return e.err }

func TestCheck_ReturnsWhatRefusesAndFindingsAll(t *testing.T) {
	warn := &guard.Finding{Name: "messages", Severity: guard.Warn, Text: "slow"}
	refuse := &guard.Finding{Name: "eviction", Text: "drops keys"}
	down := fmt.Errorf("%w: no route", guard.ErrUnavailable)
	odd := errors.New("a locker of somebody else's says this")
	for name, c := range map[string]struct {
		err      error
		accepted string
		check    string // "" passes
		found    []string
	}{
		"accepted": {
			err: errors.Join(warn, refuse), accepted: "eviction",
			found: []string{"messages warn", "eviction warn"},
		},
		"another one is accepted": {
			err: refuse, accepted: "messages", check: "drops keys",
			found: []string{"eviction refuse"},
		},
		"well":      {},
		"a warning": {err: warn, found: []string{"messages warn"}},
		"both": {
			err: errors.Join(warn, refuse), check: "drops keys",
			found: []string{"messages warn", "eviction refuse"},
		},
		"down":          {err: down, check: down.Error()},
		"another error": {err: odd, check: odd.Error()},
		"all": {
			err: errors.Join(warn, refuse, down), check: "drops keys\n" + down.Error(),
			found: []string{"messages warn", "eviction refuse"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, examined{memlocker.New(), c.err})
			if c.accepted != "" {
				g = g.With(guard.WithAcceptedFindings(c.accepted))
			}
			err := g.Check(t.Context())
			if got := fmt.Sprint(err); got != c.check && (err != nil || c.check != "") {
				t.Errorf("Check: %q, want %q", got, c.check)
			}
			var f *guard.Finding
			if errors.As(err, &f) != strings.HasPrefix(c.check, "drops keys") ||
				errors.Is(err, guard.ErrUnavailable) != errors.Is(c.err, down) {
				t.Errorf("Check: %v", err)
			}
			found, rest := g.Findings(t.Context())
			var names []string
			for _, f := range found {
				names = append(names, f.Name+" "+f.Severity.String())
			}
			if !slices.Equal(names, c.found) || (rest != nil) != (errors.Is(c.err, down) || errors.Is(c.err, odd)) {
				t.Errorf("Findings: %q, %v", names, rest)
			}
		})
	}
}

func TestCheck_AnAcceptedFindingNeedsAName(t *testing.T) {
	_, err := guard.New(memlocker.New(), guard.WithAcceptedFindings("process", ""))
	wantErr(t, err, guard.ErrInvalidOption)
}

func TestCheck_AnAcceptedFindingThatDoesNotExistIsRefused(t *testing.T) {
	typo := guard.WithAcceptedFindings("process", "evicton")
	const want = `the locker has no finding "evicton", only ["process" "client" "eviction" `
	refused := func(err error) {
		t.Helper()
		wantErr(t, err, guard.ErrInvalidOption)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	mem := memlocker.New()
	_, err := guard.New(mem, typo)
	refused(err)
	g := newGuard(t, mem, guard.WithAcceptedFindings("process")) // the failed New did not take the locker

	var none *guard.Guard
	late := none.With(typo) // derived before a default guard is known
	guard.SetDefault(g)
	t.Cleanup(func() { guard.SetDefault(nil) })
	refused(late.Check(t.Context()))
	newGuard(t, testguard.Plain{Locker: memlocker.New()}, typo) // keeps its names to itself
	defer func() { refused(recover().(error)) }()
	g.With(typo)
}

// An application's tests give memlocker the same options as redislocker.
func TestCheck_ALockerInMemoryKnowsTheFindingsOfTheOthers(t *testing.T) {
	known := memlocker.New().Capabilities().Findings
	for _, name := range new(redlock.Locker).Capabilities().Findings { // redislocker has the same names
		if !slices.Contains(known, name) {
			t.Errorf("memlocker does not know %q", name)
		}
	}
}

func TestCheck_ALockerInMemoryWarnsThatItServesOneProcess(t *testing.T) {
	g := newGuard(t, memlocker.New())
	found, err := g.Findings(t.Context())
	if err != nil || len(found) != 1 || found[0].Name != "process" || found[0].Severity != guard.Warn ||
		!strings.Contains(found[0].Text, "one process only") {
		t.Errorf("found %+v, %v", found, err)
	}
	wantErr(t, g.Check(t.Context()), nil)
}
