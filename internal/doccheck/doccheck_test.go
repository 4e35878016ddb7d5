package doccheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

func load(t *testing.T) map[string]*Page {
	t.Helper()
	pages, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]*Page{}
	for _, p := range pages {
		byPath[p.Path] = p
	}
	return byPath
}

func all(pages map[string]*Page) []*Page {
	var list []*Page
	for _, path := range slices.Sorted(keys(pages)) {
		list = append(list, pages[path])
	}
	return list
}

func keys(pages map[string]*Page) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for path := range pages {
			if !yield(path) {
				return
			}
		}
	}
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	for _, problem := range BrokenLinks(root, all(load(t))) {
		t.Error(problem)
	}
}

func TestEveryBlockOfGoIsCompiledSomewhere(t *testing.T) {
	missing, err := MissingCode(root, all(load(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		t.Error(m)
	}
}

// What does not fit belongs to docs/.
func TestTheReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	for word := range strings.FieldsSeq(string(text)) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			words++
		}
	}
	if words > 1600 {
		t.Errorf("README.md has %d words, want at most 1,600", words)
	}
}

// translated are the pages that must be there in Chinese.
var translated = []string{"README.md", "examples/flashsale/README.md", "guardgen/README.md"}

func TestTranslationsKeepUp(t *testing.T) {
	pages := load(t)
	for _, path := range translated {
		other := pages[chinese(path)]
		if other == nil {
			t.Errorf("%s is missing", chinese(path))
			continue
		}
		for _, d := range Differences(pages[path], other) {
			t.Error(d)
		}
		if !strings.Contains(pages[path].Sections[1].Prose, "(README.zh-CN.md)") || !strings.Contains(other.Sections[1].Prose, "(README.md)") {
			t.Errorf("%s and its translation do not lead to each other at their tops", path)
		}
	}
}

func chinese(path string) string { return strings.TrimSuffix(path, ".md") + Translation }

const sample = `# Name
See [that](#the-table) and [a file](page.go).

    go run . # comment

## The table
It costs 5 ms with ` + "`New`" + `.

| A | B |
|---|---|
| ten | 10 s, ` + "`Do`" + ` |

` + "```go\nx := 1 // one\n```\n"

// Each of these, planted in the sample, must be found.
var planted = []struct{ name, old, new string }{
	{"a figure in a table", "10 s", "11 s"},
	{"a figure in the text", "5 ms", "50 ms"},
	{"a name in a table", "`Do`", "`DoAll`"},
	{"a name in the text", "`New`", "`Now`"},
	{"a row more", "|---|---|", "|---|---|\n| nine | 9 s |"},
	{"code", "x := 1", "x := 2"},
	{"a command", "go run .", "go test ."},
	{"a block less", "```go\nx := 1 // 一\n```\n", ""},
	{"a heading of another level", "## The", "### The"},
	{"a heading more", "## The", "## More\n## The"},
	{"a link", "page.go", "pair.go"},
}

func TestAPlantedDifferenceIsFound(t *testing.T) {
	original := Parse("README.md", sample)
	same := strings.NewReplacer("ten", "十", "It costs", "要花", "// one", "// 一", "# comment", "# 注释", "See", "见").Replace(sample)
	if found := Differences(original, Parse("README.zh-CN.md", same)); len(found) > 0 {
		t.Errorf("the same: %q", found)
	}
	for _, p := range planted {
		text := strings.Replace(same, p.old, p.new, 1)
		if text == same {
			t.Fatalf("%s: not planted", p.name)
		}
		if len(Differences(original, Parse("README.zh-CN.md", text))) == 0 {
			t.Errorf("%s: not found", p.name)
		}
	}
}

// The real pages, with the first figure changed in each table cell, and in the text of each section, that has one.
func TestAWrongFigurePlantedInATranslationIsFound(t *testing.T) {
	pages := load(t)
	for _, path := range translated {
		original, other := pages[path], pages[chinese(path)]
		if other == nil {
			continue // another test's failure
		}
		places := figurePlaces(other)
		if len(places) < 4 {
			t.Errorf("%s: only %d figures", other.Path, len(places))
		}
		for _, place := range places {
			right := *place
			f := figures(right)[0]
			*place = strings.Replace(right, f, f+"7", 1)
			if !slices.Equal(figures(*place), figures(right)) && len(Differences(original, other)) == 0 {
				t.Errorf("%s: not found: %q", other.Path, *place)
			}
			*place = right
		}
	}
}

// figurePlaces returns what has figures on a page.
func figurePlaces(p *Page) []*string {
	var places []*string
	add := func(text *string) {
		if len(figures(*text)) > 0 {
			places = append(places, text)
		}
	}
	for i := range p.Sections {
		add(&p.Sections[i].Prose)
		for _, table := range p.Sections[i].Tables {
			for _, row := range table.Rows {
				for j := range row {
					add(&row[j])
				}
			}
		}
	}
	return places
}

func TestABrokenLinkIsFound(t *testing.T) {
	for _, p := range []struct{ name, text, want string }{
		{"none", sample, ""},
		{"a file", strings.Replace(sample, "page.go", "paje.go", 1), "no such file"},
		{"a heading", strings.Replace(sample, "#the-table", "#the-tables", 1), "no such heading"},
		{"a picture", sample + `<img src="page.png">`, "no such file"},
		{"in a table", strings.Replace(sample, "| ten |", "| [ten](ten.md) |", 1), "no such file"},
	} {
		found := strings.Join(BrokenLinks(".", []*Page{Parse("README.md", p.text)}), "\n")
		if (p.want == "") != (found == "") || !strings.Contains(found, p.want) {
			t.Errorf("%s: found %q", p.name, found)
		}
	}
}

func TestCodeThatIsNowhereIsFound(t *testing.T) {
	page := Parse("README.md", "```go\nfor i := range \"planted\" {\n```\n")
	missing, err := MissingCode(".", []*Page{page})
	if err != nil || len(missing) != 1 {
		t.Errorf("found %q, %v", missing, err)
	}
}
