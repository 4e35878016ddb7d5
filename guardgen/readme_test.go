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
		key := "key:{id}"
		if row[1] == "one" {
			key = "key"
		}
		if _, problems := parseDirective(prefix + " " + key + " " + row[1] + row[2]); len(problems) > 0 {
			t.Errorf("%s: %s", row[0], problems[0].text)
		}
	}
	for name := range options {
		if !slices.Contains(told, name) {
			t.Errorf("option %s is not in the table", name)
		}
	}
}

// mistaken is shop.go with the mistakes that the README shows.
const mistaken = `package shop

import "context"

type Order struct {
	ID   string
	Tags []string
}

// T is sold.
//
//go:generate go tool guardgen
type T interface {
	//guard:lock stock:{skuu}
	Deduct(ctx context.Context, sku string, n int) error
	//guard:lock order:{o.Tags}
	Pay(ctx context.Context, o *Order) error
	//guard:lock stock:{sku}
	Left(ctx context.Context, sku string) int
}

//guard:lock stock:{sku}
`

func TestTheReadmeShowsRealMistakes(t *testing.T) {
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		text := get(t, page)
		dir := module(t, map[string]string{"shop.go": mistaken})
		reported := guardgen(t, exitFailed, dir)
		shown := 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "shop.go:") {
				continue
			}
			shown++
			if !strings.Contains(reported, strings.TrimSuffix(line, "...\n")) {
				t.Errorf("%s shows %sand what is reported is\n%s", page, line, reported)
			}
		}
		if shown != 4 {
			t.Errorf("%s shows %d mistakes", page, shown)
		}
	}
}
