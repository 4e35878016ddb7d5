// Package thin keeps adapters thin: what all of them need belongs into
// internal/httpguard.
package thin

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// adapterLines is how many lines of code, without comments, an adapter may
// have: about its framework, and no more.
const adapterLines = 420

// Check fails if the package in the working directory has more code than an
// adapter needs. besides names files about what only its framework has.
func Check(t *testing.T, besides ...string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(besides, name) {
			continue
		}
		text, err := os.ReadFile(name) //nolint:gosec // of the package under test
		if err != nil {
			t.Fatal(err)
		}
		total += linesOfCode(text)
	}
	if total == 0 || total > adapterLines {
		t.Errorf("the package has %d lines of code, want %d at most: what all adapters need belongs into "+
			"internal/httpguard", total, adapterLines)
	}
	t.Logf("%d lines of code", total)
}

// linesOfCode counts the lines on which a token of Go stands.
func linesOfCode(text []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return len(lines)
		case tok == token.SEMICOLON && lit == "\n": // put in by the scanner
		default:
			lines[file.Line(pos)] = true
		}
	}
}
