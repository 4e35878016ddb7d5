package main

import (
	"go/types"
	"strconv"
	"strings"
)

// signature is one method or function as the generated code writes it.
type signature struct {
	params   []param
	results  []param // the last is the error
	variadic bool
	names    scope // all names in use inside
}

// param is a parameter or a result.
type param struct {
	source string // its name in the sources, or "" if it has none
	name   string // its name in the generated code
	text   string // its type in the generated code
	typ    types.Type
}

// unguardable returns the reason why a method or function cannot be guarded, or
// "" if it can.
func unguardable(sig *types.Signature) string {
	params, results := sig.Params(), sig.Results()
	if params.Len() == 0 || sig.Variadic() && params.Len() == 1 || !isContext(params.At(0).Type()) {
		return "the first parameter must be a context.Context"
	}
	if results.Len() == 0 || !types.Identical(results.At(results.Len()-1).Type(),
		types.Universe.Lookup("error").Type()) {
		return "the last result must be an error"
	}
	return ""
}

func isContext(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Context" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "context"
}

// newSignature names the parameters and results of sig as the sources do. It
// makes a new name if there is none in the sources, or if it is in names, which
// the body needs for something else.
func newSignature(sig *types.Signature, im *imports, names scope) *signature {
	s := &signature{variadic: sig.Variadic(), names: names}
	list := func(vars *types.Tuple, unnamed func(i int) string) []param {
		var ps []param
		for v := range vars.Variables() {
			p := param{source: v.Name(), text: im.typeString(v.Type()), typ: v.Type()}
			p.name = p.source
			if p.name == "" || p.name == "_" {
				p.source, p.name = "", unnamed(len(ps))
			}
			p.name = names.unique(p.name)
			ps = append(ps, p)
		}
		return ps
	}
	s.params = list(sig.Params(), func(i int) string {
		if i == 0 {
			return "ctx"
		}
		return "p" + strconv.Itoa(i)
	})
	s.results = list(sig.Results(), func(i int) string {
		if i == sig.Results().Len()-1 {
			return "err"
		}
		return "r" + strconv.Itoa(i+1)
	})
	if s.variadic {
		last := &s.params[len(s.params)-1]
		last.text = "..." + im.typeString(last.typ.(*types.Slice).Elem())
	}
	return s
}

// Params declares the parameters.
func (s *signature) Params() string { return declare(s.params) }

// Results declares the results. An error alone needs no name.
func (s *signature) Results() string {
	if len(s.results) == 1 {
		return "error"
	}
	return "(" + declare(s.results) + ")"
}

// Args passes the parameters on.
func (s *signature) Args() string {
	args := join(s.params)
	if s.variadic {
		args += "..."
	}
	return args
}

// Values lists the results if there are others than the error. Otherwise it
// returns "".
func (s *signature) Values() string {
	if len(s.results) == 1 {
		return ""
	}
	return join(s.results)
}

// Ctx returns the name of the context, and Err that of the error.
func (s *signature) Ctx() string { return s.params[0].name }
func (s *signature) Err() string { return s.results[len(s.results)-1].name }

func join(ps []param) string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

func declare(ps []param) string {
	var b strings.Builder
	for i, p := range ps {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.name)
		if i+1 == len(ps) || p.text != ps[i+1].text { // otherwise it shares the type of the next
			b.WriteString(" " + p.text)
		}
	}
	return b.String()
}
