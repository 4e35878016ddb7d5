// Package doccheck reads the project's Markdown and reports what is wrong with
// it. It finds links that lead nowhere, code that nothing compiles or runs,
// translations that have fallen behind, and words that the glossary rejects. It
// knows only the Markdown that is written here.
package doccheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// A Page is one Markdown file.
type Page struct {
	Path     string // below the root, with slashes
	Sections []Section
}

// A Section is a heading and the text up to the next heading. The text before
// the first heading is a Section of level 0.
type Section struct {
	Line   int
	Level  int
	Title  string
	Anchor string // as GitHub makes it
	Prose  string // lines outside Blocks and Tables
	Blocks []Block
	Tables []Table
}

// A Block is code, fenced or indented.
type Block struct {
	Line int
	Lang string // "" if there is none
	Note string // the comment just before it, "" if there is none
	Text string // without the indentation of its first line
}

// A Table is a list of rows, without the line below the head.
type Table struct {
	Line int
	Rows [][]string
}

// Load reads all pages below root and llms.txt, but not those of vendored
// packages.
func Load(root string) ([]*Page, error) {
	var pages []*Page
	read := func(path string, text []byte) { pages = append(pages, Parse(path, string(text))) }
	if err := walk(root, ".md", read); err != nil {
		return nil, err
	}
	err := walk(root, ".txt", func(path string, text []byte) {
		if path == "llms.txt" {
			read(path, text)
		}
	})
	return pages, err
}

// walk calls do for each file below root that has the extension.
func walk(root, ext string, do func(path string, text []byte)) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "vendor"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ext:
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // a file of the tree that is walked
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		do(filepath.ToSlash(rel), text)
		return err
	})
}

var (
	heading   = regexp.MustCompile(`^(#{1,6}) +(.+?)\s*$`)
	fence     = regexp.MustCompile("^```(\\w*)\\s*$")
	tableRule = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

// Parse reads one page.
func Parse(path, text string) *Page {
	p := &Page{Path: path, Sections: []Section{{Line: 1}}}
	lines := strings.Split(text, "\n")
	anchors := map[string]int{}
	for i := 0; i < len(lines); {
		s := &p.Sections[len(p.Sections)-1]
		line := lines[i]
		switch h := heading.FindStringSubmatch(line); {
		case h != nil:
			p.Sections = append(p.Sections, Section{
				Line: i + 1, Level: len(h[1]), Title: h[2],
				Anchor: anchor(h[2], anchors),
			})
			i++
		case fence.MatchString(line):
			i += s.fenced(lines, i)
		case strings.HasPrefix(line, "    ") && (i == 0 || lines[i-1] == "" || strings.HasSuffix(lines[i-1], "-->")):
			i += s.indented(lines, i)
		case strings.HasPrefix(line, "|"):
			i += s.table(lines, i)
		default:
			s.Prose += line + "\n"
			i++
		}
	}
	return p
}

// fenced reads the block that begins in line i, and returns its number of
// lines.
func (s *Section) fenced(lines []string, i int) int {
	n := 1
	for i+n < len(lines) && !fence.MatchString(lines[i+n]) {
		n++
	}
	lang := fence.FindStringSubmatch(lines[i])[1]
	s.Blocks = append(s.Blocks, Block{
		Line: i + 1, Lang: lang, Note: note(lines, i),
		Text: strings.Join(lines[i+1:i+n], "\n"),
	})
	return n + 1
}

func (s *Section) indented(lines []string, i int) int {
	var text []string
	for _, line := range lines[i:] {
		rest, ok := strings.CutPrefix(line, "    ")
		if !ok {
			break
		}
		text = append(text, rest)
	}
	s.Blocks = append(s.Blocks, Block{Line: i + 1, Note: note(lines, i), Text: strings.Join(text, "\n")})
	return len(text)
}

func (s *Section) table(lines []string, i int) int {
	t := Table{Line: i + 1}
	n := 0
	for ; i+n < len(lines) && strings.HasPrefix(lines[i+n], "|"); n++ {
		if !tableRule.MatchString(lines[i+n]) {
			t.Rows = append(t.Rows, cells(lines[i+n]))
		}
	}
	s.Tables = append(s.Tables, t)
	return n
}

func cells(line string) []string {
	row := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	return row
}

// anchor makes the id of a heading, as GitHub does. The second heading of the
// same name gets a number.
func anchor(title string, seen map[string]int) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, link.ReplaceAllString(title, "$1"))
	n := seen[id]
	seen[id]++
	if n > 0 {
		return id + "-" + string(rune('0'+n))
	}
	return id
}
