package main

import (
	"fmt"
	"go/types"
	"strconv"
	"strings"

	"github.com/go-lockguard/guard/guardgen/internal/keypart"
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

// value returns the expression of a placeholder, if its type can be part of a
// key.
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
	if kind := keypart.Unfit(t); kind != "" {
		return "", problemAt(p[0].at, "%s is %s (%s), which cannot be part of a key", p, kind, w.im.typeString(t))
	}
	return root.name + strings.TrimPrefix(p.String(), p[0].name), nil
}

// param finds the parameter at the start of a placeholder.
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

// member returns the type of field or method s of type t, and whether Go can
// take its address.
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
