package doccheck

import (
	"fmt"
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

const (
	maxWords   = 35  // of a sentence in a comment
	maxColumns = 120 // of a line of code; a tab counts four
)

var sentenceEnd = regexp.MustCompile(`[.!?]\s+`)

// Unreadable returns the sentences of a Go file's comments that are too long,
// and its lines that are too wide. Free are the lines that cannot be broken:
// raw strings, the output of an Example, code in a comment, and what tells a
// linter to be silent. So are the lines that a document has, given by their
// text.
func Unreadable(path string, src []byte, inDocuments map[string]bool) []string {
	free := map[int]bool{}
	var found []string
	var block []string // the prose of a comment, line by line
	began, last, code := 0, -1, -1
	output := false
	flush := func() {
		for s := range sentencesOf(strings.Join(block, " ")) {
			if n := len(strings.Fields(s)); n > maxWords {
				found = append(found, fmt.Sprintf("%s:%d: a sentence of %d words: %.60s...", path, began, n, s))
			}
		}
		block = nil
	}
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(src))
	var sc scanner.Scanner
	sc.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := sc.Scan()
		if tok == token.EOF {
			break
		}
		line := file.Line(pos)
		if tok != token.COMMENT && (tok != token.SEMICOLON || text == ";") {
			code = line
		}
		switch {
		case tok == token.STRING && strings.HasPrefix(text, "`"):
			for i := range strings.Count(text, "\n") + 1 {
				free[line+i] = true
			}
		case tok == token.COMMENT:
			words, prose := strings.CutPrefix(text, "// ")
			prose = prose && line != code // a comment behind code is no sentence
			if line != last+1 {
				output = false
			}
			output = output || strings.HasPrefix(words, "Output:") || strings.HasPrefix(words, "Unordered output:")
			free[line] = free[line] || output || strings.HasPrefix(text, "//nolint") ||
				strings.HasPrefix(text, "//\t") || strings.HasPrefix(text, "//   ")
			if line != last+1 || !prose || output || strings.HasPrefix(words, " ") {
				flush()
				began = line
			}
			if prose && !output && !strings.HasPrefix(words, " ") {
				block = append(block, words)
			}
			last = line
		}
	}
	flush()
	for i, line := range strings.Split(string(src), "\n") {
		if n := columns(line); n > maxColumns && !free[i+1] && !inDocuments[strings.TrimSpace(line)] {
			found = append(found, fmt.Sprintf("%s:%d: a line of %d columns", path, i+1, n))
		}
	}
	return found
}

func columns(line string) (n int) {
	for _, r := range line {
		if r == '\t' {
			n += 4 - n%4
			continue
		}
		n++
	}
	return n
}

func sentencesOf(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range sentenceEnd.Split(text, -1) {
			if !yield(s) {
				return
			}
		}
	}
}
