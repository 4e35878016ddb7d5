package errnote_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/go-lockguard/guard/internal/errnote"
)

func TestTheOutermostNoteCounts(t *testing.T) {
	ran, refused := errnote.With(io.EOF, errnote.Ran(true)), errnote.With(io.EOF, errnote.Ran(false))
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":             {nil, false},
		"no note":              {io.EOF, false},
		"noted":                {ran, true},
		"wrapped":              {fmt.Errorf("more: %w", ran), true},
		"one of joined":        {errors.Join(refused, io.EOF, ran), true},
		"none of joined":       {errors.Join(refused, io.EOF), false},
		"under the other note": {errnote.With(fmt.Errorf("more: %w", ran), errnote.Ran(false)), false},
		"above the other note": {errnote.With(refused, errnote.Ran(true)), true},
		"under another type":   {errnote.With(ran, errnote.NothingDone(false)), true},
	} {
		if got := errnote.Is(c.err, errnote.Ran(true)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	held := errnote.With(ran, errnote.HeldStatus(423))
	if status, found := errnote.Of[errnote.HeldStatus](held); !found || status != 423 {
		t.Errorf("status %d, found: %v", status, found)
	}
	if ran.Error() != io.EOF.Error() || !errors.Is(ran, io.EOF) {
		t.Error("a note has changed an error")
	}
}
