package main

import (
	"cmp"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"
)

// scope is the set of names that are in use at one place of the generated code.
type scope map[string]bool

// unique reserves and returns want. If want is taken it adds a number.
func (s scope) unique(want string) string {
	name := want
	for i := 2; s[name]; i++ {
		name = want + strconv.Itoa(i)
	}
	s[name] = true
	return name
}

// imports holds the names of the packages that a generated file uses. The names
// in the sources do not help, because types know packages, and a package may
// have several names in the sources.
type imports struct {
	self   *types.Package
	names  scope             // of the package and the file
	paths  map[string]string // name by path
	helper string            // name of the function keyPart, or "" if it is not needed
}

func newImports(self *types.Package) *imports {
	im := &imports{self: self, names: scope{}, paths: map[string]string{}}
	for _, name := range self.Scope().Names() {
		im.names[name] = true
	}
	return im
}

// pkg returns the file's name for the package of the given path and name.
func (im *imports) pkg(path, name string) string {
	if im.paths[path] == "" {
		im.paths[path] = im.names.unique(name)
	}
	return im.paths[path]
}

func (im *imports) context() string { return im.pkg("context", "context") }
func (im *imports) guard() string   { return im.pkg("github.com/go-lockguard/guard", "guard") }
func (im *imports) time() string    { return im.pkg("time", "time") }
func (im *imports) strings() string { return im.pkg("strings", "strings") }

// keyPart returns the name of the helper for parts of a key that have text
// around a value.
func (im *imports) keyPart() string {
	if im.helper == "" {
		im.helper = im.names.unique("keyPart")
	}
	return im.helper
}

// typeString writes t as the generated file must spell it.
func (im *imports) typeString(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == im.self {
			return ""
		}
		return im.pkg(p.Path(), p.Name())
	})
}

// specs returns the lines of the import declaration. The standard library comes
// first, then an empty line, then the others.
func (im *imports) specs() []string {
	type spec struct {
		path, line string
		other      bool
	}
	var specs []spec
	for p, name := range im.paths {
		s := spec{path: p, line: strconv.Quote(p)}
		if path.Base(p) != name {
			s.line = name + " " + s.line
		}
		first, _, _ := strings.Cut(p, "/")
		s.other = strings.Contains(first, ".")
		specs = append(specs, s)
	}
	slices.SortFunc(specs, func(a, b spec) int {
		if a.other != b.other {
			return map[bool]int{false: -1, true: 1}[a.other]
		}
		return cmp.Compare(a.path, b.path)
	})
	var lines []string
	for i, s := range specs {
		if s.other && i > 0 && !specs[i-1].other {
			lines = append(lines, "")
		}
		lines = append(lines, s.line)
	}
	return lines
}
