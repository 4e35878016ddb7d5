package main

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// mistake is one mistake at one place of the sources.
type mistake struct {
	pos  token.Position
	text string
}

// in returns the mistake as people and editors read it. The path is relative to
// dir if that is shorter.
func (m mistake) in(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		if rel, err := filepath.Rel(abs, m.pos.Filename); err == nil && !strings.HasPrefix(rel, "..") {
			m.pos.Filename = rel
		}
	}
	return fmt.Sprintf("%s: %s", m.pos, m.text)
}

// report collects mistakes, so that one run shows them all.
type report struct {
	fset     *token.FileSet
	mistakes []mistake
}

func (r *report) add(pos token.Pos, format string, args ...any) {
	r.mistakes = append(r.mistakes, mistake{r.fset.Position(pos), fmt.Sprintf(format, args...)})
}

// sorted returns the mistakes in the order of the sources and without
// duplicates. An interface that is embedded twice is read twice.
func (r *report) sorted() []mistake {
	slices.SortFunc(r.mistakes, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.pos.Filename, b.pos.Filename), cmp.Compare(a.pos.Offset, b.pos.Offset),
			cmp.Compare(a.text, b.text))
	})
	return slices.Compact(r.mistakes)
}
