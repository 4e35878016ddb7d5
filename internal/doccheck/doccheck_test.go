package doccheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

// pages are all pages by path. The tests share them, and leave them as they are.
var pages = sync.OnceValues(func() (map[string]*Page, error) {
	all, err := Load(root)
	byPath := map[string]*Page{}
	for _, p := range all {
		byPath[p.Path] = p
	}
	return byPath, err
})

func load(t *testing.T) map[string]*Page {
	t.Helper()
	all, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	return all
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

// Text that does not fit belongs into docs/.
func TestTheReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := Words(string(text)); n >= mostWords {
		t.Errorf("README.md has %d words outside its code, want fewer than %d", n, mostWords)
	}
	long := "# Name\n" + strings.Repeat("word\n", mostWords-2)
	if n := Words(long + "```go\nx := 1 // one\n```\n"); n != mostWords {
		t.Errorf("the planted page has %d words, want %d", n, mostWords)
	}
}

const mostWords = 1001

// A newcomer copies it.
func TestTheFirstLineForTestsIsTheSmallSet(t *testing.T) {
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		if line := firstForTests(string(text)); line != "./scripts/test" {
			t.Errorf("%s: %q", page, line)
		}
		planted := strings.Replace(string(text), "\n./scripts/test\n", "\n./scripts/test all\n", 1)
		if line := firstForTests(planted); line != "./scripts/test all" {
			t.Errorf("%s with a planted fault: %q", page, line)
		}
	}
}

// firstForTests returns the first line that has the test command.
func firstForTests(text string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, "scripts/test") {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return ""
}

// translated lists the pages that must have a Chinese translation.
var translated = []string{
	"README.md", "examples/flashsale/README.md", "guardgen/README.md",
	"docs/choosing.md", "docs/compare.md", "docs/errors.md", "docs/frameworks.md", "docs/from-java.md",
	"docs/how-it-works.md", "docs/http.md", "docs/jobs.md", "docs/migrating.md", "docs/operations.md",
	"docs/settings.md", "docs/testing-crashes.md",
	"tracing/README.md",
}

func TestTranslationsKeepUp(t *testing.T) {
	pages := load(t)
	for _, path := range translated {
		if pages[chinese(path)] == nil {
			t.Errorf("%s is missing", chinese(path))
		}
	}
	for path, page := range pages {
		other := pages[chinese(path)]
		if other == nil && filepath.Dir(path) == "docs/recipes" && !strings.HasSuffix(path, Translation) {
			t.Errorf("%s is missing", chinese(path))
		}
		if other == nil || page == other {
			continue
		}
		for _, d := range slices.Concat(Differences(page, other), Unmarked(other, pages)) {
			t.Error(d)
		}
		here, there := filepath.Base(path), filepath.Base(chinese(path))
		if !strings.Contains(page.Sections[1].Prose, "("+there+")") ||
			!strings.Contains(other.Sections[1].Prose, "("+here+")") {
			t.Errorf("%s and its translation do not lead to each other at their tops", path)
		}
	}
}

func TestALinkThatChangesTheLanguageSaysSo(t *testing.T) {
	pages := map[string]*Page{"docs/both.zh-CN.md": {}}
	for text, ok := range map[string]bool{
		"[x](page.md)":          true, // its own original
		"[x](both.zh-CN.md#a)":  true,
		"[x](both.md)":          false, // it is there in Chinese
		"[x](other.md#a)（英文）":   true,
		"[x](other.md#a)":       false,
		"| [x](../README.md) |": false,
		"[x](code.go)":          true, // code has one language
		"[x](https://a.b/c.md)": true,
	} {
		if found := Unmarked(Parse("docs/page.zh-CN.md", "# Title\n"+text+"\n"), pages); (len(found) == 0) != ok {
			t.Errorf("%s: %v", text, found)
		}
	}
}

func TestChinesePagesUseTheWordsOfTheGlossary(t *testing.T) {
	pages := load(t)
	words := RejectedWords(pages["CONTRIBUTING.md"])
	if len(words) < 10 {
		t.Errorf("the glossary rejects only %q", words)
	}
	for _, place := range Misworded(all(pages), words) {
		t.Error(place)
	}
}

func TestARejectedWordIsFound(t *testing.T) {
	words := RejectedWords(Parse("CONTRIBUTING.md", "# Words\n| English | Chinese | Not |\n|---|---|---|\n"+
		"| failover | 主从切换 | 故障转移 |\n| lease | 租约 | |\n| release | 释放 | 交还、归还 |\n| marks | “” | 「、」 |\n"+
		"\n| Not | A | Glossary |\n|---|---|---|\n| 1 | 2 | 释放 |\n"))
	if want := []string{"故障转移", "交还", "归还", "「", "」"}; !slices.Equal(words, want) {
		t.Fatalf("%q, want %q", words, want)
	}
	for text, want := range map[string]int{
		"# 故障转移\n":                     1,
		"# 锁\n先交还，再归还\n":               2,
		"# 锁\n| A |\n|---|\n| 归还 |\n":  1,
		"# 锁\n```go\nx() // 交还\n```\n": 1,
		"# 锁\n释放“锁”\n":                 0,
		"# 锁\n释放「锁」\n":                 2,
	} {
		pages := []*Page{Parse("page.zh-CN.md", text), Parse("page.md", text)}
		if found := Misworded(pages, words); len(found) != want {
			t.Errorf("%q: found %q, want %d", text, found, want)
		}
	}
}

func TestSourceIsReadable(t *testing.T) {
	inDocuments := map[string]bool{}
	for _, page := range load(t) {
		for _, s := range page.Sections {
			for _, b := range s.Blocks {
				for line := range strings.Lines(b.Text) {
					inDocuments[strings.TrimSpace(line)] = true
				}
			}
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path != root && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_gen.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		for _, found := range Unreadable(path, src, inDocuments) {
			t.Error(found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsHardToReadIsFound(t *testing.T) {
	long, wide := strings.Repeat("a ", maxWords+1), strings.Repeat("x", maxColumns+1)
	for src, want := range map[string]int{
		"// " + long + "\npackage p\n":                                1,
		"// A word. " + long + "\n// more. " + long + "\npackage p\n": 2,
		"//\t" + long + wide + "\npackage p\n":                        0, // code
		"package p\n\nvar x" + wide + " int\n":                        1,
		"package p\n\nvar x = `" + wide + "`\n":                       0,
		"package p\n\nvar x int //nolint:all // " + wide + "\n":       0,
		"package p\n\n// Output:\n// " + long + wide + "\n":           0,
		"package p\n\nvar documented" + wide + " int\n":               0,
	} {
		known := map[string]bool{"var documented" + wide + " int": true}
		if found := Unreadable("p.go", []byte(src), known); len(found) != want {
			t.Errorf("%.40q: %v, want %d", src, found, want)
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

` + "```mermaid\nA->>B: token 7\n```\n\n```go\nx := 1 // one\n```\n"

// Each of these faults, planted in the sample, must be found.
var planted = []struct{ name, old, new string }{
	{"a figure in a table", "10 s", "11 s"},
	{"a figure in the text", "5 ms", "50 ms"},
	{"a name in a table", "`Do`", "`DoAll`"},
	{"a name in the text", "`New`", "`Now`"},
	{"a row more", "|---|---|", "|---|---|\n| nine | 9 s |"},
	{"code", "x := 1", "x := 2"},
	{"a command", "go run .", "go test ."},
	{"an arrow", "A->>B", "B->>A"},
	{"a figure in a drawing", "令牌 7", "令牌 8"},
	{"a block less", "```go\nx := 1 // 一\n```\n", ""},
	{"a heading of another level", "## The", "### The"},
	{"a heading more", "## The", "## More\n## The"},
	{"a link", "page.go", "pair.go"},
}

func TestAPlantedDifferenceIsFound(t *testing.T) {
	original := Parse("README.md", sample)
	same := strings.NewReplacer("ten", "十", "It costs", "要花", "// one", "// 一", "# comment", "# 注释",
		"See", "见", "token", "令牌").Replace(sample)
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

// The real pages with planted faults. In each table cell and in each section's
// text the first figure is changed.
func TestAWrongFigurePlantedInATranslationIsFound(t *testing.T) {
	pages := load(t)
	for _, path := range translated {
		original, other := pages[path], pages[chinese(path)]
		if other == nil || len(other.Sections) != len(original.Sections) {
			continue // another test's failure
		}
		planted := 0
		for i := range other.Sections {
			here := &other.Sections[i]
			for _, place := range figurePlaces(here) {
				planted++
				right, found := *place, false
				f := figures(right)[0]
				*place = strings.Replace(right, f, f+"7", 1)
				compare(original.Sections[i], *here, func(string, any, any) { found = true })
				if !slices.Equal(figures(*place), figures(right)) && !found {
					t.Errorf("%s: not found: %q", other.Path, *place)
				}
				*place = right
			}
		}
		if planted < 4 {
			t.Errorf("%s: only %d figures", other.Path, planted)
		}
	}
}

// figurePlaces returns the parts of a section that have figures.
func figurePlaces(s *Section) []*string {
	var places []*string
	add := func(text *string) {
		if len(figures(*text)) > 0 {
			places = append(places, text)
		}
	}
	add(&s.Prose)
	for _, table := range s.Tables {
		for _, row := range table.Rows {
			for j := range row {
				add(&row[j])
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

func TestEveryBlockIsRunOrSaysWhyNot(t *testing.T) {
	for _, problem := range Unproven(root, all(load(t))) {
		t.Error(problem)
	}
}

func TestShellCommandsOfTheDocumentsEndWell(t *testing.T) {
	for place, b := range Shell(all(load(t))) {
		if err := Run(t.Context(), root, b); err != nil {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// Each of these is a page with one block. The block is proven or not.
func TestABlockThatNothingProvesIsFound(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"bare", "Text\n```\nls\n```\n", "no comment says why"},
		{"indented", "Text\n\n    ls\n", "no comment says why"},
		{"commands that nobody has looked at", "```sh\nls\n```\n", "no comment says why"},
		{"commands to run", "<!-- run -->\n```sh\nls\n```\n", ""},
		{"no commands to run", "<!-- run -->\n```java\nint x;\n```\n", "no comment says why"},
		{"in another language", "```java\nint x;\n```\n", "no comment says why"},
		{"excused", "<!-- not run: it takes an hour -->\n```\nls\n```\n", ""},
		{"excused, a line between", "<!-- not run: it takes an hour -->\n\n    ls\n", ""},
		{"excused, indented", "<!-- not run: it takes\n  an hour -->\n    ls\n", ""},
		{"excused without a reason", "<!-- not run: -->\n```\nls\n```\n", "without a reason"},
		{"a comment about something else", "<!-- figures -->\n```\nls\n```\n", "no comment says why"},
		{"a comment further up", "<!-- not run: it takes an hour -->\nText\n```\nls\n```\n", "no comment says why"},
		{"run by a test", "<!-- run by TestTheReadmeIsShort in internal/doccheck -->\n```\nls\n```\n", ""},
		{
			"run by no test", "<!-- run by TestNothing in internal/doccheck -->\n```\nls\n```\n",
			"there is no TestNothing",
		},
		{"in a list", "- Text\n  ```\n  ls\n  ```\n", "not understood"},
	} {
		found := strings.Join(Unproven(root, []*Page{Parse("README.md", c.text)}), "\n")
		if (c.want == "") != (found == "") || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q", c.name, found)
		}
	}
}

func TestACommandThatFailsIsFound(t *testing.T) {
	for text, ok := range map[string]bool{
		"true | cat": true, "false | cat": false, "false\ntrue": false,
		"nosuchcommand": false,
	} {
		pages := []*Page{Parse("README.md", "<!-- run -->\n```sh\n"+text+"\n```\n")}
		if n := len(Shell(pages)); n != 1 {
			t.Fatalf("%q: %d blocks to run", text, n)
		}
		if err := Run(t.Context(), root, Shell(pages)["README.md:2"]); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
