package locker_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-lockguard/guard/locker"
)

func TestFindingsAreToldFromTheRest(t *testing.T) {
	a := &locker.Finding{Name: "a", Severity: locker.Warn, Text: "a is odd"}
	b := &locker.Finding{Name: "b", Text: "b is wrong"}
	down := fmt.Errorf("%w: %w", locker.ErrUnavailable, errors.New("no route"))
	for what, c := range map[string]struct {
		err   error
		found []locker.Finding
		rest  error
	}{
		"nothing":       {},
		"one":           {err: a, found: []locker.Finding{*a}},
		"another error": {err: down, rest: down},
		"both":          {err: errors.Join(a, down), found: []locker.Finding{*a}, rest: errors.Join(down)},
		"several":       {err: errors.Join(a, nil, errors.Join(b)), found: []locker.Finding{*a, *b}},
		"one of a node": {
			err:   fmt.Errorf("node 2: %w", b),
			found: []locker.Finding{{Name: "b", Text: "node 2: b is wrong"}},
		},
		"several of nodes": {err: fmt.Errorf("node 2: %w", errors.Join(a, b)), found: []locker.Finding{*a, *b}},
		"a wrapped error":  {err: fmt.Errorf("node 2: %w", down), rest: fmt.Errorf("node 2: %w", down)},
	} {
		found, rest := locker.Findings(c.err)
		if !slices.Equal(found, c.found) || fmt.Sprint(rest) != fmt.Sprint(c.rest) ||
			errors.Is(rest, locker.ErrUnavailable) != (c.rest != nil) {
			t.Errorf("%s: got %v and %v, want %v and %v", what, found, rest, c.found, c.rest)
		}
	}
}

func TestSeverityHasAName(t *testing.T) {
	for s, want := range map[locker.Severity]string{locker.Refuse: "refuse", locker.Warn: "warn", 7: "Severity(7)"} {
		text, err := s.MarshalText()
		if string(text) != want || err != nil {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
		var back locker.Severity
		if err := back.UnmarshalText(text); (err == nil) != (s <= locker.Warn) || err == nil && back != s {
			t.Errorf("%s is read as %v, %v", text, back, err)
		}
	}
}
