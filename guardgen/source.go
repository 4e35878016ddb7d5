package main

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/packages"
)

// sources holds the directives that the syntax of a package has.
type sources struct {
	directives map[token.Pos]*annotation // by the position of the name that they stand above
	decls      []ast.Decl                // types and functions of the package, in order
	loose      map[*ast.Comment]bool     // directives that no method or function has claimed yet
}

// annotation is a directive above a method or function.
type annotation struct {
	comment *ast.Comment
	node    ast.Node // the method or function
}

// sourcesOf reads the directives of p.
func (l *loader) sourcesOf(p *packages.Package) *sources {
	if s := l.sources[p]; s != nil {
		return s
	}
	s := &sources{directives: map[token.Pos]*annotation{}, loose: map[*ast.Comment]bool{}}
	l.sources[p] = s
	for _, f := range p.Syntax {
		s.decls = append(s.decls, f.Decls...)
		for _, group := range f.Comments {
			for _, c := range group.List {
				if isDirective(c.Text) {
					s.loose[c] = true
				} else if wrong, prose := nearMiss(c.Text); wrong != "" && !prose {
					l.report.add(c.Pos(), "%s", wrong)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.InterfaceType:
				for _, method := range n.Methods.List {
					if len(method.Names) == 1 {
						l.attach(s, method.Names[0], method.Doc, method)
					}
				}
			case *ast.FuncDecl:
				if n.Recv == nil {
					l.attach(s, n.Name, n.Doc, n)
				}
			}
			return true
		})
	}
	return s
}

// attach notes the directive in doc, which stands above node.
func (l *loader) attach(s *sources, name *ast.Ident, doc *ast.CommentGroup, node ast.Node) {
	if doc == nil {
		return
	}
	for _, c := range doc.List {
		wrong, prose := nearMiss(c.Text)
		switch {
		case prose && !strings.HasPrefix(c.Text, "//"+name.Name+" ") && !strings.HasPrefix(c.Text, "//"+name.Name+"("):
			l.report.add(c.Pos(), "%s", wrong)
		case !isDirective(c.Text):
		case s.directives[name.Pos()] != nil:
			l.report.add(c.Pos(), "second directive above %s: several keys are joined with ' + '", name.Name)
			delete(s.loose, c)
		default:
			s.directives[name.Pos()] = &annotation{c, node}
		}
	}
}

// claim returns the directive above the method or function whose name is at pos
// in p, or nil.
func (l *loader) claim(p *packages.Package, pos token.Pos) *annotation {
	s := l.sourcesOf(p)
	a := s.directives[pos]
	if a != nil {
		delete(s.loose, a.comment)
	}
	return a
}

// reportLoose reports the directives of p that do nothing, because a lock that
// is silently missing is the worst mistake.
func (l *loader) reportLoose(p *packages.Package) {
	for c := range l.sourcesOf(p).loose {
		l.report.add(c.Pos(), "nothing is guarded here: a directive stands right above a method of a package-level "+
			"interface type, or above a function without receiver")
	}
}

// read parses the directive of a, and reports its mistakes.
func (l *loader) read(a *annotation) (directive, bool) {
	d, problems := parseDirective(a.comment.Text)
	for _, wrong := range problems {
		l.report.add(l.in(a, wrong.at), "%s", wrong.text)
	}
	return d, len(problems) == 0
}

// in returns the position of an offset in a directive.
func (l *loader) in(a *annotation, at int) token.Pos { return a.comment.Pos() + token.Pos(at) }
