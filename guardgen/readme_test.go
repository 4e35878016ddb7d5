package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// usage is the line of the README that describes the form of a directive.
const usage = "//guard:lock key [+ key]... [option]..."

func TestTheReadmeSaysWhatIsSo(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	directives := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !isDirective(line) || line == usage {
			continue
		}
		directives++
		if _, problems := parseDirective(line); len(problems) > 0 {
			t.Errorf("%s: %s", line, problems[0].text)
		}
	}
	if directives == 0 {
		t.Error("no directives found")
	}
	var told []string
	directive, _, _ := strings.Cut(string(text), "\n## guardvet")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)(=\\w+)?` \\|").FindAllStringSubmatch(directive, -1) {
		told = append(told, row[1])
		if _, problems := parseDirective(prefix + " key " + row[1] + row[2]); len(problems) > 0 {
			t.Errorf("%s: %s", row[0], problems[0].text)
		}
	}
	for name := range options {
		if !slices.Contains(told, name) {
			t.Errorf("option %s is not in the table", name)
		}
	}
}
