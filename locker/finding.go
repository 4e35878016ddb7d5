package locker

import (
	"errors"
	"fmt"
)

// Finding is an error that [Locker.Check] has found. It is an answer of the
// store, or a setting of the client, that somebody should know of. A check that
// finds several joins them.
type Finding struct { //nolint:errname // a word of its own, and for Findings no error
	Name     string   `json:"name"`     // what it is about, as a fixed word: "eviction"
	Severity Severity `json:"severity"` // whether the store can be used as it is
	Text     string   `json:"text"`     // what was found, and what to change
}

// Error returns the text.
func (f *Finding) Error() string { return f.Text }

// Severity says what a [Finding] means for the question whether the store can
// be used.
type Severity int

// The severities.
const (
	Refuse Severity = iota // leases would break the guard's promises, or none could be acquired
	Warn                   // leases are sound, but something costs time or could not be checked
)

// String returns "refuse" or "warn".
func (s Severity) String() string {
	switch s {
	case Refuse:
		return "refuse"
	case Warn:
		return "warn"
	}
	return fmt.Sprintf("Severity(%d)", int(s))
}

// MarshalText returns what String does.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the result of MarshalText.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, known := range []Severity{Refuse, Warn} {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("locker: %q is no severity: refuse or warn", text)
}

// Findings splits the error of a [Locker.Check]. It returns the findings in it,
// each with the text that was wrapped around it, and the rest. rest is nil if
// nothing else is left.
func Findings(err error) (found []Finding, rest error) {
	switch e := err.(type) { //nolint:errorlint // takes it apart itself
	case nil:
		return nil, nil
	case *Finding:
		return []Finding{*e}, nil
	case interface{ Unwrap() []error }:
		var others []error
		for _, one := range e.Unwrap() {
			f, other := Findings(one)
			found, others = append(found, f...), append(others, other)
		}
		rest = errors.Join(others...)
	case interface{ Unwrap() error }:
		found, rest = Findings(e.Unwrap())
		if len(found) == 1 && rest == nil {
			found[0].Text = err.Error()
		}
	}
	if len(found) == 0 {
		return nil, err // in its own words
	}
	return found, rest
}
