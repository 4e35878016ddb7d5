package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
)

// printable quotes text of other programs that a terminal would not show as it
// is, so that it cannot end its line or its column.
func printable(s string) string {
	if string(escape([]byte(s))) != s || strings.ContainsAny(s, "\n\t") {
		return strconv.Quote(s)
	}
	return s
}

// holderName returns the name of a holder's guard.
func holderName(h guard.Holder) string {
	if h.Name == "" {
		return "-"
	}
	return printable(h.Name)
}

func where(s guard.KeyState) string {
	switch {
	case !s.Held:
		return "nobody"
	case s.Limit > 0:
		return s.Shared()
	case s.Holder == guard.Holder{}:
		return "unknown"
	case s.Lingers:
		return process(s.Holder) + ", may be idle"
	}
	return process(s.Holder)
}

func process(h guard.Holder) string {
	if h == (guard.Holder{}) {
		return "unknown"
	}
	return printable(h.Host) + ":" + strconv.Itoa(h.PID)
}

// age returns the time since an event in a form that fits a column. The event
// is dated by the clock of another machine.
func age(since, now time.Time) string {
	if since.IsZero() {
		return "-"
	}
	d := max(0, now.Sub(since))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func left(s guard.KeyState) string {
	switch {
	case !s.Held:
		return "-"
	case s.Remaining == 0:
		return "no TTL"
	}
	return rest(s.Remaining)
}

// rest returns a duration in a form that fits a column.
func rest(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// writeJSON writes a value to a line.
func writeJSON[T any](out io.Writer, values ...T) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// args checks how many arguments there are.
func args(cmd *cli.Command, n int) error {
	if got := cmd.Args().Len(); got != n {
		noun := "arguments"
		if n == 1 {
			noun = "argument"
		}
		empty := ""
		if got < n {
			empty = ", where an empty one does not count"
		}
		return fmt.Errorf("%s takes %d %s, not %d%s: see guardctl %s --help", cmd.Name, n, noun, got, empty, cmd.Name)
	}
	return nil
}

// cell returns text that cannot end its cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(printable(strings.ReplaceAll(text, "\n", "; ")), "|", `\|`)
}
