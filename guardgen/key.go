package main

import (
	"fmt"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// keyWriter writes the key expressions of one directive.
type keyWriter struct {
	*signature
	im   *imports
	name string // of the method or function, for people
}

// expression returns the Go expression of t.
func (w *keyWriter) expression(t keyTemplate) (string, *problem) {
	args := make([]string, len(t.parts))
	for i, p := range t.parts {
		if p.value == nil {
			args[i] = strconv.Quote(p.before)
			continue
		}
		value, wrong := w.value(p.value)
		if wrong != nil {
			return "", wrong
		}
		args[i] = value
		if p.before != "" || p.after != "" {
			args[i] = fmt.Sprintf("%s(%q, %s, %q)", w.im.keyPart(), p.before, value, p.after)
		}
	}
	return w.im.guard() + ".Key(" + strings.Join(args, ", ") + ")", nil
}

// value returns the expression of a placeholder, once the types say that it can be part of a key.
func (w *keyWriter) value(p selector) (string, *problem) {
	root, wrong := w.param(p[0])
	if wrong != nil {
		return "", wrong
	}
	t, addressable := root.typ, true
	for _, s := range p[1:] {
		if t, addressable, wrong = w.member(t, addressable, s); wrong != nil {
			return "", wrong
		}
	}
	if kind := unfit(t); kind != "" {
		return "", problemAt(p[0].at, "%s is %s (%s), which cannot be part of a key", p, kind, w.im.typeString(t))
	}
	return root.name + strings.TrimPrefix(p.String(), p[0].name), nil
}

// param finds the parameter that a placeholder starts with.
func (w *keyWriter) param(s step) (param, *problem) {
	var known []string
	for _, p := range w.params {
		if p.source == s.name {
			return p, nil
		}
		if p.source != "" {
			known = append(known, p.source)
		}
	}
	if len(known) == 0 {
		return param{}, problemAt(s.at, "%s has no parameter %s: its parameters have no names", w.name, s.name)
	}
	return param{}, problemAt(s.at, "%s has no parameter %s, only %s", w.name, s.name, strings.Join(known, ", "))
}

// member returns the type of the field or method s of a t, and whether Go can take its address.
func (w *keyWriter) member(t types.Type, addressable bool, s step) (types.Type, bool, *problem) {
	obj, _, indirect := types.LookupFieldOrMethod(t, addressable, w.im.self, s.name)
	switch obj := obj.(type) {
	case *types.Var:
		if s.call {
			return nil, false, problemAt(s.at, "%s of %s is a field, write it without ()", s.name, w.im.typeString(t))
		}
		return obj.Type(), addressable || indirect, nil
	case *types.Func:
		sig := obj.Signature()
		if sig.Params().Len() > 0 || sig.Results().Len() != 1 {
			return nil, false, problemAt(s.at, "%s of %s must be a method without arguments and with one result",
				s.name, w.im.typeString(t))
		}
		if !s.call {
			return nil, false, problemAt(s.at, "%s of %s is a method, write %s()", s.name, w.im.typeString(t), s.name)
		}
		return sig.Results().At(0).Type(), false, nil
	}
	return nil, false, problemAt(s.at, "%s has no field or method %s", w.im.typeString(t), s.name)
}

// unfit returns what t is if guard.Key cannot take it, else "".
func unfit(t types.Type) string {
	if types.Implements(t, stringer) || types.Implements(t, textMarshaler) {
		return ""
	}
	if p, ok := types.Unalias(t).(*types.TypeParam); ok {
		return unfitTerm(p.Constraint())
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&(types.IsString|types.IsInteger|types.IsBoolean) != 0:
			return ""
		case u.Info()&types.IsFloat != 0:
			return "a float"
		}
		return "a " + u.Name()
	case *types.Slice:
		return "a slice"
	case *types.Array:
		return "an array"
	case *types.Map:
		return "a map"
	case *types.Signature:
		return "a func"
	case *types.Chan:
		return "a channel"
	case *types.Struct:
		return "a struct without String or MarshalText"
	case *types.Pointer:
		return "a pointer without String or MarshalText"
	}
	return "an interface without String or MarshalText"
}

// unfitTerm returns what some type that constraint names is if guard.Key cannot take it. A constraint that names none,
// as comparable, is for Key to judge at run time: it answers with the empty key, and the guard with ErrInvalidKey.
func unfitTerm(constraint types.Type) string {
	switch u := constraint.Underlying().(type) {
	case *types.Interface:
		for t := range u.EmbeddedTypes() {
			if kind := unfitTerm(t); kind != "" {
				return kind
			}
		}
		return ""
	case *types.Union:
		for t := range u.Terms() {
			if kind := unfitTerm(t.Type()); kind != "" {
				return kind
			}
		}
		return ""
	}
	return unfit(constraint)
}

// What guard.Key takes apart from strings, integers and booleans.
var (
	stringer      = methodSet("String", types.Typ[types.String])
	textMarshaler = methodSet("MarshalText", types.NewSlice(types.Universe.Lookup("byte").Type()),
		types.Universe.Lookup("error").Type())
)

// methodSet is the interface of one method without arguments.
func methodSet(name string, results ...types.Type) *types.Interface {
	vars := make([]*types.Var, len(results))
	for i, t := range results {
		vars[i] = types.NewParam(token.NoPos, nil, "", t)
	}
	sig := types.NewSignatureType(nil, nil, nil, nil, types.NewTuple(vars...), false)
	return types.NewInterfaceType([]*types.Func{types.NewFunc(token.NoPos, nil, name, sig)}, nil).Complete()
}
