// Package keypart knows which types guard.Key takes as a part of a key.
package keypart

import (
	"go/token"
	"go/types"
)

// Unfit returns what t is if guard.Key cannot take it, else "".
func Unfit(t types.Type) string {
	if kind := vague(t); kind != "" {
		return kind
	}
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

// vague returns what t is if it has a String that is not its identity, and that guard.Key refuses therefore; else "".
func vague(t types.Type) string {
	switch {
	case types.Implements(t, protoMessage):
		return "a protobuf message, of which name a field"
	case types.Implements(t, contexts):
		return "a context"
	case types.Implements(t, reflectType):
		return "a reflect.Type"
	case types.TypeString(t, nil) == "reflect.Value":
		return "a reflect.Value"
	case types.TypeString(t, nil) == "*math/big.Float":
		return "a float"
	}
	return ""
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
	return Unfit(constraint)
}

// What guard.Key takes apart from strings, integers and booleans.
var (
	stringer      = interfaceOf(method("String", types.Typ[types.String]))
	textMarshaler = interfaceOf(method("MarshalText", byteSlice, failure))
)

// What it refuses all the same, by as many methods as tell them from anything else.
var (
	protoMessage = interfaceOf(method("ProtoMessage"))
	contexts     = interfaceOf(
		method("Done", types.NewChan(types.RecvOnly, types.NewStruct(nil, nil))), method("Err", failure))
	reflectType = interfaceOf(method("PkgPath", types.Typ[types.String]), method("Comparable", types.Typ[types.Bool]))
)

var (
	byteSlice = types.NewSlice(types.Universe.Lookup("byte").Type())
	failure   = types.Universe.Lookup("error").Type()
)

// method is one without arguments.
func method(name string, results ...types.Type) *types.Func {
	vars := make([]*types.Var, len(results))
	for i, t := range results {
		vars[i] = types.NewParam(token.NoPos, nil, "", t)
	}
	sig := types.NewSignatureType(nil, nil, nil, nil, types.NewTuple(vars...), false)
	return types.NewFunc(token.NoPos, nil, name, sig)
}

func interfaceOf(methods ...*types.Func) *types.Interface {
	return types.NewInterfaceType(methods, nil).Complete()
}
