package doccheck

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	link     = regexp.MustCompile(`\[([^\]]*)\]\(([^()\s]+)\)`)
	htmlLink = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	codeSpan = regexp.MustCompile("`[^`]*`")
)

// links returns the targets of the links in the prose and the tables of a
// section.
func (s *Section) links() []string {
	text := s.text()
	var to []string
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		to = append(to, m[2])
	}
	for _, m := range htmlLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
		to = append(to, m[1])
	}
	return to
}

// text returns the prose of a section and the text of its tables.
func (s *Section) text() string {
	parts := []string{s.Prose}
	for _, t := range s.Tables {
		for _, row := range t.Rows {
			parts = append(parts, row...)
		}
	}
	return strings.Join(parts, "\n")
}

// BrokenLinks returns the links of the pages that lead to no file below root,
// or to no heading of one of the pages. Links to the web are not followed.
func BrokenLinks(root string, pages []*Page) []string {
	anchors := map[string][]string{}
	for _, p := range pages {
		anchors[p.Path] = []string{}
		for _, s := range p.Sections {
			anchors[p.Path] = append(anchors[p.Path], s.Anchor)
		}
	}
	var broken []string
	for _, p := range pages {
		for _, s := range p.Sections {
			for _, to := range s.links() {
				if problem := follow(root, p.Path, to, anchors); problem != "" {
					broken = append(broken, fmt.Sprintf("%s, in %q: %s: %s", p.Path, s.Title, to, problem))
				}
			}
		}
	}
	return broken
}

// follow returns the mistake in a link, or "".
func follow(root, from, to string, anchors map[string][]string) string {
	if strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://") {
		return ""
	}
	file, id, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	ids, page := anchors[target]
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil && !page {
		return "no such file"
	}
	if id != "" && !slices.Contains(ids, id) {
		return "no such heading"
	}
	return ""
}
