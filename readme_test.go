package guard_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every block of Go in the README stands, but for indentation, in a Go file that is compiled.
func TestReadmeCodeIsCompiled(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return fs.SkipDir
		case filepath.Ext(path) == ".go":
			b, err := os.ReadFile(path)
			code.WriteString(flatten(string(b)))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 4 {
		t.Errorf("only %d blocks found", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(code.String(), flatten(block[1])) {
			t.Errorf("in no Go file:\n%s", block[1])
		}
	}
}

// flatten takes the indentation from each line.
func flatten(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n") + "\n"
}
