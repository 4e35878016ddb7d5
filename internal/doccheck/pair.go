package doccheck

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Translation is the ending of the names of pages in Chinese. README.zh-CN.md
// is the translation of README.md.
const Translation = ".zh-CN.md"

// Differences returns the differences between a translation and its original.
// It compares the number and levels of headings, code without comments, and the
// rows, figures and code spans of tables. In the prose of each section it
// compares figures, code spans and the targets of links.
func Differences(original, translation *Page) []string {
	var found []string
	differs := func(s Section, what string, a, b any) {
		found = append(found, fmt.Sprintf("%s:%d %q: %s: %v there, %v here", translation.Path,
			s.Line, s.Title, what, a, b))
	}
	if a, b := outline(original), outline(translation); a != b {
		found = append(found, fmt.Sprintf("%s: headings are %s there, %s here", translation.Path, a, b))
		return found
	}
	for i, b := range translation.Sections {
		a := original.Sections[i]
		compare(a, b, func(what string, inA, inB any) { differs(b, what, inA, inB) })
	}
	return found
}

// pageLink is a link to a page, and the mark of a page in English.
var pageLink = regexp.MustCompile(`\]\(([^()\s:]*\.md)(?:#[^()\s]*)?\)(（英文）)?`)

// Unmarked returns the links of a translation that change the language without
// a mark. A link must lead to the translation of a page if there is one.
// Otherwise it must be followed by （英文）. The link to the page's own original
// needs no mark.
func Unmarked(translation *Page, pages map[string]*Page) []string {
	own := strings.TrimSuffix(translation.Path, Translation) + ".md"
	var found []string
	for _, s := range translation.Sections {
		for _, m := range pageLink.FindAllStringSubmatch(s.text(), -1) {
			to := path.Join(path.Dir(translation.Path), m[1])
			switch chinese := strings.TrimSuffix(to, ".md") + Translation; {
			case to == own, strings.HasSuffix(to, Translation):
			case pages[chinese] != nil:
				found = append(found, fmt.Sprintf("%s:%d: %s is in English, there is %s",
					translation.Path, s.Line, to, chinese))
			case m[2] == "":
				found = append(found, fmt.Sprintf("%s:%d: %s is in English: write （英文） behind the link",
					translation.Path, s.Line, to))
			}
		}
	}
	return found
}

// outline returns the levels of all headings in order.
func outline(p *Page) string {
	var levels strings.Builder
	for _, s := range p.Sections {
		levels.WriteString(strings.Repeat("#", s.Level) + " ")
	}
	return strings.TrimSpace(levels.String())
}

func compare(a, b Section, differs func(what string, a, b any)) {
	same := func(what string, a, b []string) {
		if !slices.Equal(a, b) {
			differs(what, strings.Join(a, " "), strings.Join(b, " "))
		}
	}
	same("figures", figures(a.Prose), figures(b.Prose))
	same("code in the text", spans(a.Prose), spans(b.Prose))
	same("links", targets(a), targets(b))
	if len(a.Blocks) != len(b.Blocks) {
		differs("blocks", len(a.Blocks), len(b.Blocks))
		return
	}
	for i := range a.Blocks {
		if code(a.Blocks[i]) != code(b.Blocks[i]) {
			differs("block", code(a.Blocks[i]), code(b.Blocks[i]))
		}
	}
	if len(a.Tables) != len(b.Tables) {
		differs("tables", len(a.Tables), len(b.Tables))
		return
	}
	for i := range a.Tables {
		compareTables(a.Tables[i], b.Tables[i], differs)
	}
}

func compareTables(a, b Table, differs func(what string, a, b any)) {
	if len(a.Rows) != len(b.Rows) {
		differs("rows", len(a.Rows), len(b.Rows))
		return
	}
	for i := range a.Rows {
		if len(a.Rows[i]) != len(b.Rows[i]) {
			differs("cells", a.Rows[i], b.Rows[i])
			continue
		}
		for j, cell := range a.Rows[i] {
			other := b.Rows[i][j]
			if !slices.Equal(figures(cell), figures(other)) || !slices.Equal(spans(cell), spans(other)) {
				differs(fmt.Sprintf("row %d", i+1), cell, other)
			}
		}
	}
}

var figure = regexp.MustCompile(`\d+(?:[.,:]\d+)*`)

// figures returns the sorted numbers in a text, without the numbers in code and
// links.
func figures(text string) []string {
	text = codeSpan.ReplaceAllString(link.ReplaceAllString(text, "$1"), "")
	return slices.Sorted(slices.Values(figure.FindAllString(htmlLink.ReplaceAllString(text, ""), -1)))
}

// spans returns the code spans in a text, sorted and without duplicates. A
// translation may repeat a name or leave out a repetition.
func spans(text string) []string {
	return slices.Compact(slices.Sorted(slices.Values(codeSpan.FindAllString(text, -1))))
}

// targets returns the targets of a section's links, sorted and without
// duplicates. Language and heading are left out, because headings and pictures
// are translated, and so is the link to the other language. A translation may link
// to several headings of a page.
func targets(s Section) []string {
	var to []string
	for _, t := range s.links() {
		file, _, _ := strings.Cut(t, "#")
		if s.Level <= 1 && (strings.HasPrefix(file, "README.") && file != "README.svg") {
			continue
		}
		to = append(to, strings.Replace(file, ".zh-CN.", ".", 1))
	}
	return slices.Compact(slices.Sorted(slices.Values(to)))
}

var (
	slashes = regexp.MustCompile(`(^|\s)// .*$`)
	hash    = regexp.MustCompile(`(^|\s)# .*$`)
	label   = regexp.MustCompile(`( as |: ).*$`)
)

// code returns a block without its comments, and a mermaid drawing with the
// figures of its labels only. Other drawings, and outputs of programs, have
// neither.
func code(b Block) string {
	var lines []string
	for line := range strings.Lines(b.Text) {
		line = slashes.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		switch b.Lang {
		case "go", "java":
		case "mermaid":
			line = label.ReplaceAllStringFunc(line, func(text string) string {
				return strings.Join(figures(text), " ")
			})
		default:
			line = hash.ReplaceAllString(line, "")
		}
		lines = append(lines, strings.TrimRight(line, " \t"))
	}
	return strings.Join(lines, "\n")
}
