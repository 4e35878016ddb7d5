package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// The part of docs/faults.md between two comments is generated from rows and
// from results, which are kept in a file.

const (
	pageFile = "../../../docs/faults.md"
	seenFile = "testdata/seen.json"
	from     = "<!-- The rows: go -C lab test -race ./torture/faults -update -partitions 1000 -timeout 20m -->\n"
	to       = "<!-- The end of the rows. -->\n"
)

// writePage adds the results of this run to the earlier ones, and writes the
// page anew.
func writePage() error {
	by, err := results.by.Update(seenFile)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return err
	}
	head, _, rest, err := split(string(page))
	if err != nil {
		return err
	}
	return os.WriteFile(pageFile, []byte(head+render(by)+rest), 0o644)
}

// split returns the page before, in and after the generated part.
func split(page string) (head, made, rest string, err error) {
	head, made, ok := strings.Cut(page, from)
	made, rest, ok2 := strings.Cut(made, to)
	if !ok || !ok2 {
		return "", "", "", fmt.Errorf("%s has no place for the rows", pageFile)
	}
	return head + from, made, to + rest, nil
}

// render returns the table of the rows: a line for each fault, with what is
// promised and what the libraries beside guard do. guard keeps every promise,
// or the test below fails. The file has what was seen in detail.
func render(by rig.Results) string {
	var page strings.Builder
	others := libs.All()[1:]
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(&page, format, args...) }
	p("\n| | Fault | What is promised |")
	for _, lib := range others {
		p(" %s |", lib.Name)
	}
	p("\n|---|---|---|%s\n", strings.Repeat("---|", len(others)))
	for n := 1; n < len(rows); n++ {
		p("| %d | %s | %s |", n, rows[n].fault, rows[n].wanted)
		for _, lib := range others {
			p(" %s |", kept(by, n, lib.Name))
		}
		p("\n")
	}
	p("\n")
	return page.String()
}

// kept returns what was seen of a library in a row: none if it was not tried.
func kept(by rig.Results, n int, lib string) rig.Verdict {
	if r, ok := by[n][lib]; ok {
		return r.Kept
	}
	return rig.None
}

func TestThePageSaysWhatWasSeen(t *testing.T) {
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	by, err := rig.Read(seenFile)
	if err != nil {
		t.Fatal(err)
	}
	_, made, _, err := split(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if made != render(by) {
		t.Errorf("%s is not what rows_test.go and %s say: run this package's tests with -update", pageFile, seenFile)
	}
	for n := 1; n < len(rows); n++ {
		if seen := by[n][libs.Guard.Name]; seen.Kept != rig.Yes || seen.Does == "" {
			t.Errorf("row %d: guard: %q, %q", n, seen.Kept, seen.Does)
		}
	}
}
