package guard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fileOrder returns the files of the face, from the top, as CONTRIBUTING.md
// lists them.
func fileOrder(t *testing.T) (order []string) {
	t.Helper()
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| The face | Files, from the top |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.SplitSeq(table, "\n") {
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(strings.Split(row, "|")[2], -1) {
			order = append(order, name+".go")
		}
	}
	return order
}

// nothing imports packages without their contents.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	p.MarkComplete()
	return p, nil
}

// upward returns the names that a file uses of a file above it in order.
func upward(fset *token.FileSet, files []*ast.File, order []string) []string {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: nothing{}, Error: func(error) {}} // of what the imports lack
	pkg, _ := conf.Check("guard", fset, files, info)
	place := func(p token.Pos) int { return slices.Index(order, filepath.Base(fset.Position(p).Filename)) }
	found := map[string]bool{}
	for id, o := range info.Uses {
		if o.Pkg() == pkg && o.Pos().IsValid() && place(id.Pos()) > place(o.Pos()) {
			found[order[place(id.Pos())]+" uses "+o.Name()] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestFiles_UseOnlyFilesBelowThem(t *testing.T) {
	fset, order := token.NewFileSet(), fileOrder(t)
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" || name == "methods_go127.go" {
			continue
		}
		if !slices.Contains(order, name) {
			t.Errorf("%s is not in the order of CONTRIBUTING.md", name)
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) != len(order) {
		t.Errorf("the order has %d files, the package %d", len(order), len(files))
	}
	for _, use := range upward(fset, files, order) {
		t.Error(use)
	}
	slices.Reverse(order)
	if len(upward(fset, files, order)) == 0 {
		t.Error("the reverse order is kept as well: the check sees nothing")
	}
}
