package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// loader holds the packages of one run.
type loader struct {
	report  *report
	roots   []*packages.Package            // the packages that the patterns name
	all     map[string]*packages.Package   // the same and all their imports, by path
	sources map[*packages.Package]*sources // filled as needed
}

// load reads and type-checks the packages of the patterns and their imports,
// all from source. The packages need not compile, because generated files may
// be missing or stale, in them and in their imports.
func load(dir string, patterns []string) (*loader, error) {
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	l := &loader{
		report:  &report{fset: token.NewFileSet()},
		all:     map[string]*packages.Package{},
		sources: map[*packages.Package]*sources{},
	}
	var err error
	l.roots, err = packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax,
		Dir:       dir,
		Fset:      l.report.fset,
		ParseFile: parseFile,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	if len(l.roots) == 0 {
		return nil, fmt.Errorf("no packages match %q", patterns)
	}
	var errs []error
	for _, p := range l.roots {
		errs = append(errs, broken(p))
	}
	for p := range packages.Postorder(l.roots) {
		if p.Types != nil {
			l.all[p.Types.Path()] = p
		}
	}
	return l, errors.Join(errs...)
}

// parseFile reads a file. It leaves out the bodies of functions where no
// directive stands in the file: most of the time would go into those of the
// imports. Of a file that guardgen has written parseFile reads only the package
// clause, because the sources must make sense without it and it may be broken.
func parseFile(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	mode := parser.AllErrors | parser.ParseComments | parser.SkipObjectResolution
	if filepath.Base(name) == fileName && bytes.HasPrefix(src, []byte(header)) {
		mode = parser.PackageClauseOnly
	}
	file, err := parser.ParseFile(fset, name, src, mode)
	if file == nil || bytes.Contains(src, []byte("//guard:")) {
		return file, err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
	return file, err
}

// broken returns the reason why the sources of p cannot be read. Type errors
// are no reason.
func broken(p *packages.Package) error {
	var errs []error
	for _, e := range p.Errors {
		if e.Kind != packages.TypeError && !strings.Contains(e.Pos, fileName+":") {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}
