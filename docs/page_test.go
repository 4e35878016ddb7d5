package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-lockguard/guard/internal/doccheck"
)

// load reads a page, by its path from this directory.
func load(t *testing.T, page string) *doccheck.Page {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(page))
	if err != nil {
		t.Fatal(err)
	}
	return doccheck.Parse(page, string(text))
}
