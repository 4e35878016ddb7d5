package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A reader of any page must know that redlock's options may change.
func TestEveryPageThatNamesRedlockCallsItExperimental(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	found := 0
	for _, page := range append(pages, "../README.md", "../README.zh-CN.md", "../locker/redlock/doc.go") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "redlock/doc.go)") && !strings.HasSuffix(page, "doc.go") {
			continue
		}
		found++
		if !strings.Contains(string(text), "experimental") && !strings.Contains(string(text), "实验性") {
			t.Errorf("%s does not call redlock experimental", page)
		}
	}
	if found < 5 {
		t.Errorf("only %d pages name redlock", found)
	}
}
