package main

import (
	"go/ast"
	"go/types"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/go/packages"
)

// target is an interface or a function that gets a guarded form.
type target struct {
	obj       types.Object
	sig       *types.Signature // nil for an interface
	name      string           // the beginning of its telemetry names
	generated string           // name of the constructor or function to be generated
	hidden    string           // name of the type or variable behind it
	typeArgs  []string         // names of the type parameters
	methods   []guarded        // the methods with a directive; for a function, itself
}

// guarded is a method or function with its directive.
type guarded struct {
	fn *types.Func
	*annotation
	directive
}

// needsKeyPart reports whether a part of a key has text around its value.
func (g guarded) needsKeyPart() bool {
	for _, k := range g.keys {
		for _, p := range k.parts {
			if p.value != nil && (p.before != "" || p.after != "") {
				return true
			}
		}
	}
	return false
}

// typeParams returns the type parameters of t, which may be none.
func (t *target) typeParams() *types.TypeParamList {
	if t.sig != nil {
		return t.sig.TypeParams()
	}
	return t.obj.Type().(*types.Named).TypeParams()
}

// targets returns the targets of the directives of p, in the order of the
// sources. It reports directives that guard nothing.
func (l *loader) targets(p *packages.Package) []*target {
	var ts []*target
	for _, decl := range l.sourcesOf(p).decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if t := l.functionTarget(p, decl); t != nil {
				ts = append(ts, t)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && !spec.Assign.IsValid() {
					if t := l.interfaceTarget(p, spec.Name); t != nil {
						ts = append(ts, t)
					}
				}
			}
		}
	}
	l.reportLoose(p)
	return ts
}

// interfaceTarget returns the target for the type of the given name, or nil.
// The methods of embedded interfaces keep their directives, wherever the
// interfaces are declared.
func (l *loader) interfaceTarget(p *packages.Package, name *ast.Ident) *target {
	obj := p.Types.Scope().Lookup(name.Name)
	if obj == nil {
		return nil // it is called _
	}
	iface, ok := obj.Type().Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	t := &target{obj: obj, name: obj.Name()}
	upper := firstUpper(obj.Name())
	if t.generated = "guard" + upper; obj.Exported() {
		t.generated = "Guard" + upper
	}
	for m := range iface.Methods() {
		home := l.all[pathOf(m)]
		if home == nil {
			continue
		}
		a := l.claim(home, m.Pos())
		if a == nil {
			continue
		}
		g, ok := l.guarded(home, m, a)
		if ok && !iface.IsMethodSet() {
			l.report.add(a.comment.Pos(), "%s is a constraint, it has no values to guard", obj.Name())
			ok = false
		}
		if ok && g.function != "" {
			l.report.add(l.in(a, g.at), "func= names the guarded form of a function, %s is a method", m.Name())
			ok = false
		}
		if ok {
			t.methods = append(t.methods, g)
		}
	}
	if len(t.methods) == 0 {
		return nil
	}
	return t
}

// functionTarget returns the target for a function, or nil.
func (l *loader) functionTarget(p *packages.Package, decl *ast.FuncDecl) *target {
	a := l.claim(p, decl.Name.Pos())
	if a == nil {
		return nil
	}
	fn, ok := p.Types.Scope().Lookup(decl.Name.Name).(*types.Func)
	if !ok { // init and _
		l.report.add(decl.Name.Pos(), "%s cannot be guarded: nobody can call it", decl.Name.Name)
		return nil
	}
	g, ok := l.guarded(p, fn, a)
	if !ok {
		return nil
	}
	t := &target{obj: fn, sig: fn.Signature(), name: p.Types.Name(), generated: g.function, methods: []guarded{g}}
	if t.generated == "" {
		t.generated = fn.Name() + "Locked"
	}
	return t
}

// guarded reads the directive of fn, which is declared in p, and checks that fn
// can have one.
func (l *loader) guarded(p *packages.Package, fn *types.Func, a *annotation) (guarded, bool) {
	d, ok := l.read(a)
	g := guarded{fn, a, d}
	sig := fn.Signature()
	if strings.Contains(sig.String(), types.Typ[types.Invalid].String()) {
		l.reportTypes(p, fn, a)
		return g, false
	}
	if why := unguardable(sig); why != "" {
		l.report.add(fn.Pos(), "%s cannot be guarded: %s", fn.Name(), why)
		return g, false
	}
	if ok && d.once > 0 && sig.Results().Len() != 2 {
		l.report.add(l.in(a, d.onceAt), "once keeps one result, and %s has %s beside its error", fn.Name(),
			map[bool]string{true: "none", false: strconv.Itoa(sig.Results().Len() - 1)}[sig.Results().Len() == 1])
		return g, false
	}
	return g, ok
}

// reportTypes reports why the signature of fn does not type-check. It ignores
// other type errors.
func (l *loader) reportTypes(p *packages.Package, fn *types.Func, a *annotation) {
	found := false
	for _, e := range p.TypeErrors {
		if a.node.Pos() <= e.Pos && e.Pos < a.node.End() || strings.HasPrefix(e.Msg, "could not import") {
			l.report.add(e.Pos, "%s", e.Msg)
			found = true
		}
	}
	if !found {
		l.report.add(fn.Pos(), "%s cannot be guarded: its types are not known", fn.Name())
	}
}

func pathOf(fn *types.Func) string {
	if fn.Pkg() == nil {
		return "" // Error of error
	}
	return fn.Pkg().Path()
}

func firstUpper(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(r)) + name[size:]
}
