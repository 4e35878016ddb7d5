package doccheck

import (
	"fmt"
	"strings"
)

// MissingCode returns the blocks of Go in the pages that do not stand, but for indentation, in a Go file below root; the
// paragraphs of a block may stand apart in one file. Files are compiled by the other checks; translations are compared with
// their originals.
func MissingCode(root string, pages []*Page) ([]string, error) {
	var files []string
	err := walk(root, ".go", func(_ string, text []byte) { files = append(files, flatten(string(text))) })
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, p := range pages {
		if strings.HasSuffix(p.Path, Translation) {
			continue
		}
		for _, s := range p.Sections {
			for _, b := range s.Blocks {
				if b.Lang == "go" && !stands(b.Text, files) {
					missing = append(missing, fmt.Sprintf("%s:%d: in no Go file:\n%s", p.Path, b.Line, b.Text))
				}
			}
		}
	}
	return missing, nil
}

func stands(block string, files []string) bool {
	for _, file := range files {
		if standsIn(flatten(block), file) {
			return true
		}
	}
	return false
}

func standsIn(block, file string) bool {
	if strings.Contains(file, block) {
		return true
	}
	for part := range strings.SplitSeq(block, "\n\n") {
		if !strings.Contains(file, part) {
			return false
		}
	}
	return true
}

// flatten takes the indentation from each line, and leaves out those for go generate, which would obey them.
func flatten(text string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "//go:generate") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
