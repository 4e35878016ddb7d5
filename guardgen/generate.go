package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/format"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"golang.org/x/tools/go/packages"
)

// generated is the data for the template of a file.
type generated struct {
	Header, Package string
	Build           string // the build constraint, or ""
	Imports         []string
	Decorators      []*decorator
	Functions       []*call
	KeyPart         string // name of the helper, or "" if it is not needed
	Guard, Strings  string // names of packages
}

// decorator is the guarded form of an interface.
type decorator struct {
	Name        string
	Constructor string
	Struct      string
	Next        string // the embedded field
	TypeParams  string // [K comparable]
	TypeArgs    string // [K]
	Guarded     string // Deduct, Pay
	Calls       []*call
}

// call is a guarded method or function.
type call struct {
	*signature
	Name       string // of the method or function
	Generated  string // of the generated function
	TypeParams string // of the generated function
	Guard      string // the variable or field with its guard
	With       string // arguments of guard.With
	Receiver   string
	Do         string // the verb with its first arguments
	Once       string // the type of the result that is kept, or ""
	Kept       string // for how long, for people
	Callee     string
	Context    string // name of package context
	Held       string // the key templates, for people
	keys       []string
}

//go:embed generated.go.tmpl
var source string

var fileTemplate = template.Must(template.New("").Parse(source))

// generate returns the file of package p. The caller must not use it if there
// are mistakes.
func (l *loader) generate(p *packages.Package) (file, error) {
	if p.Types == nil {
		return file{}, fmt.Errorf("%s has no types", p.PkgPath)
	}
	b := &builder{loader: l, im: newImports(p.Types)}
	targets := b.reserve(l.targets(p))
	if len(targets) == 0 {
		return noFile(p)
	}
	g := generated{Header: header, Build: l.constraint(p, targets), Package: p.Types.Name()}
	for _, t := range targets {
		if t.sig == nil {
			g.Decorators = append(g.Decorators, b.decorator(t))
		} else {
			g.Functions = append(g.Functions, b.function(t))
		}
	}
	if len(l.report.mistakes) > 0 {
		return file{}, nil
	}
	g.Guard, g.Strings, g.KeyPart = b.im.guard(), b.im.paths["strings"], b.im.helper
	g.Imports = b.im.specs()

	var text bytes.Buffer
	if err := fileTemplate.Execute(&text, g); err != nil {
		return file{}, err
	}
	formatted, err := format.Source(text.Bytes())
	if err != nil {
		return file{}, fmt.Errorf("bug: what was generated for %s does not parse: %w", p.PkgPath, err)
	}
	return newFile(p.Dir, formatted)
}

// noFile is the file of a package without a directive. One that other build
// tags see stays.
func noFile(p *packages.Package) (file, error) {
	f, err := newFile(p.Dir, nil)
	if slices.Contains(p.IgnoredFiles, f.path) {
		f.want = f.have
	}
	return f, err
}

// constraint returns the build constraint that the files of all targets have, or
// "". The generated file has it too, so that it is there when they are. One file
// cannot follow targets with different constraints.
func (l *loader) constraint(p *packages.Package, targets []*target) (build string) {
	for i, t := range targets {
		own := ""
		for _, f := range p.Syntax {
			if f.FileStart <= t.obj.Pos() && t.obj.Pos() < f.FileEnd {
				own = constraintOf(f)
			}
		}
		if i == 0 {
			build = own
		}
		if own != build {
			l.report.add(t.obj.Pos(), "%s is built under %q and %s under %q, but both are guarded in one file: give "+
				"their files one build constraint, or put them into two packages",
				t.obj.Name(), own, targets[0].obj.Name(), build)
		}
	}
	return build
}

// constraintOf returns the //go:build line of a file, or "".
func constraintOf(f *ast.File) string {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if c.Pos() < f.Package && constraint.IsGoBuild(c.Text) {
				return c.Text
			}
		}
	}
	return ""
}

// builder makes the contents of one file.
type builder struct {
	*loader
	im *imports
}

// reserve reserves every name of the file outside of functions. It runs before
// the first function is written, because the names of parameters depend on it.
// The function returns the targets that can have their names.
func (b *builder) reserve(ts []*target) []*target {
	var ok []*target
	for _, t := range ts {
		if b.im.names[t.generated] {
			b.report.add(t.obj.Pos(), "%s is already declared, so %s cannot be guarded under this name",
				t.generated, t.obj.Name())
			continue
		}
		b.im.names[t.generated] = true
		ok = append(ok, t)
	}
	for _, t := range ok {
		for p := range t.typeParams().TypeParams() {
			name := p.Obj().Name()
			if name == "_" {
				name = b.im.names.unique("T")
			}
			b.im.names[name] = true
			t.typeArgs = append(t.typeArgs, name)
		}
		if t.sig == nil {
			t.hidden = b.im.names.unique("guarded" + firstUpper(t.obj.Name()))
		} else {
			t.hidden = b.im.names.unique("guardOf" + firstUpper(t.obj.Name()))
		}
	}
	b.im.context()
	b.im.guard()
	for _, t := range ok {
		for _, m := range t.methods {
			b.im.typeString(m.fn.Signature())
			for _, o := range m.settings {
				b.option(o)
			}
			if m.once > 0 {
				b.duration(m.once)
			}
			if m.needsKeyPart() {
				b.im.strings()
				b.im.keyPart()
			}
		}
		b.typeParams(t)
	}
	return ok
}

// decorator makes the guarded form of an interface.
func (b *builder) decorator(t *target) *decorator {
	d := &decorator{Name: t.obj.Name(), Constructor: t.generated, Struct: t.hidden, Next: t.obj.Name()}
	d.TypeParams, d.TypeArgs = b.typeParams(t)
	members := scope{} // of the struct, whose fields may not hide a method of the interface
	for m := range t.obj.Type().Underlying().(*types.Interface).Methods() {
		members[m.Name()] = true
	}
	if members[d.Next] {
		d.Next = b.im.names.unique("next" + firstUpper(t.obj.Name()))
	}
	members[d.Next] = true
	var names []string
	for _, m := range t.methods {
		c := b.call(t, m, scope{})
		c.Guard = members.unique("on" + firstUpper(m.fn.Name()))
		c.Receiver = c.names.unique("d")
		c.Callee = c.Receiver + "." + d.Next + "." + m.fn.Name()
		c.Do = b.verb(c, m, c.Receiver+"."+c.Guard)
		d.Calls = append(d.Calls, c)
		names = append(names, m.fn.Name())
	}
	d.Guarded = strings.Join(names, ", ")
	return d
}

// function makes the guarded form of a function.
func (b *builder) function(t *target) *call {
	c := b.call(t, t.methods[0], scope{t.obj.Name(): true, t.hidden: true})
	typeParams, typeArgs := b.typeParams(t)
	c.Generated, c.Guard, c.TypeParams = t.generated, t.hidden, typeParams
	c.Callee = t.obj.Name() + typeArgs
	c.Do = b.verb(c, t.methods[0], c.Guard)
	return c
}

// verb writes the call of the guard's verb up to the function.
func (b *builder) verb(c *call, m guarded, on string) string {
	if m.once > 0 {
		return fmt.Sprintf("%s.Once(%s, %s, %s, %s, ", b.im.guard(), c.Ctx(), on, c.keys[0], b.duration(m.once))
	}
	if len(c.keys) > 1 {
		return on + ".DoAll(" + c.Ctx() + ", []string{" + strings.Join(c.keys, ", ") + "}, "
	}
	return on + ".Do(" + c.Ctx() + ", " + c.keys[0] + ", "
}

// call makes the part that methods and functions have in common. names are the
// other names that the body needs.
func (b *builder) call(t *target, m guarded, names scope) *call {
	for _, name := range []string{"error", "string", b.im.context(), b.im.guard(), b.im.helper} {
		names[name] = true
	}
	for _, name := range t.typeArgs {
		names[name] = true
	}
	if m.once > 0 {
		names[b.im.time()] = true
	}
	c := &call{signature: newSignature(m.fn.Signature(), b.im, names), Name: m.fn.Name(), Context: b.im.context()}

	var keys, templates []string
	w := &keyWriter{signature: c.signature, im: b.im, name: m.fn.Name()}
	for _, k := range m.keys {
		key, wrong := w.expression(k)
		if wrong != nil {
			b.report.add(b.in(m.annotation, wrong.at), "%s", wrong.text)
		}
		keys, templates = append(keys, key), append(templates, k.text)
	}
	c.Held = strings.Join(templates, " and ")
	c.keys = keys
	if m.once > 0 {
		c.Once, c.Kept = c.results[0].text, short(m.once)
	}

	name := m.name
	if name == "" {
		name = t.name + "." + m.fn.Name()
	}
	with := []string{fmt.Sprintf("%s.WithName(%q)", b.im.guard(), name)}
	for _, o := range m.settings {
		with = append(with, b.option(o))
	}
	c.With = strings.Join(with, ", ")
	return c
}

// typeParams writes the type parameters of t in two forms, as they are declared
// and as they are used.
func (b *builder) typeParams(t *target) (declared, used string) {
	if len(t.typeArgs) == 0 {
		return "", ""
	}
	params := make([]string, len(t.typeArgs))
	for i, name := range t.typeArgs {
		params[i] = name + " " + b.im.typeString(t.typeParams().At(i).Constraint())
	}
	return "[" + strings.Join(params, ", ") + "]", "[" + strings.Join(t.typeArgs, ", ") + "]"
}

// option writes an option of package guard.
func (b *builder) option(o option) string {
	var value string
	switch v := o.value.(type) {
	case int:
		value = strconv.Itoa(v)
	case time.Duration:
		value = b.duration(v)
	}
	return b.im.guard() + "." + o.setter + "(" + value + ")"
}

// short writes d as directives do: 24h, not 24h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var units = []struct {
	size time.Duration
	name string
}{
	{time.Hour, "Hour"},
	{time.Minute, "Minute"},
	{time.Second, "Second"},
	{time.Millisecond, "Millisecond"},
	{time.Microsecond, "Microsecond"},
	{time.Nanosecond, "Nanosecond"},
}

// duration writes d in the largest unit of which it is a multiple.
func (b *builder) duration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	for _, u := range units {
		switch {
		case d == u.size:
			return b.im.time() + "." + u.name
		case d%u.size == 0:
			return fmt.Sprintf("%d*%s.%s", d/u.size, b.im.time(), u.name)
		}
	}
	panic("bug: every duration is a multiple of a nanosecond")
}
