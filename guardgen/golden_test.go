package main

import (
	"testing"

	"golang.org/x/tools/go/packages"
)

// golden lists packages whose generated files are kept beside them. To update
// these files:
//
//	go generate ./... && go run . ./testdata/golden/...
var golden = []string{
	"./internal/shop", "./internal/readme/shop", "./testdata/golden/clash",
	"./testdata/golden/imports", "./testdata/golden/imports/other",
}

func TestGeneratedCodeIsWhatItWas(t *testing.T) {
	guardgen(t, exitOK, ".", append([]string{"-check"}, golden...)...)
}

func TestGeneratedCodeCompiles(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedSyntax,
	}, golden...)
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) != len(golden) {
		t.Errorf("%d packages, want %d", len(pkgs), len(golden))
	}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Error(e)
		}
		if len(p.CompiledGoFiles) != 2 {
			t.Errorf("%s has the files %q", p.PkgPath, p.CompiledGoFiles)
		}
	}
}
