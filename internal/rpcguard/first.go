package rpcguard

import (
	"cmp"
	"errors"
	"io"
	"reflect"
)

// First is the first message of a stream, which was received before its handler
// runs, for the key. The handler gets it from Receive. Calls of Receive must
// not overlap.
type First struct {
	Message any // nil once the handler has it

	refused error // why the handler could not have it
}

// ReceiveFirst receives the first message, which must be of type t, a pointer.
// ReceiveFirst blocks until the client has sent it. A stream that ends without
// a message has no key.
func ReceiveFirst(t reflect.Type, receive func(message any) error) (First, error) {
	if t.Kind() != reflect.Pointer {
		return First{}, WrongType(reflect.Zero(t).Interface())
	}
	f := First{Message: reflect.New(t.Elem()).Interface()}
	err := receive(f.Message)
	if errors.Is(err, io.EOF) {
		err = ErrNoKey
	}
	return f, err
}

// Receive receives the next message into to. copyTo gives it the first one, and
// rest the others.
func (f *First) Receive(to any, copyTo func(to, first any), rest func(message any) error) error {
	switch {
	case f.refused != nil:
		return f.refused
	case f.Message == nil:
		return rest(to)
	case reflect.TypeOf(f.Message) != reflect.TypeOf(to):
		f.refused = WrongType(to)
	default:
		copyTo(to, f.Message)
	}
	f.Message = nil
	return f.refused
}

// RefusedOr returns the handler's error. A handler that could not have its
// first message cannot hide that.
func (f *First) RefusedOr(err error) error { return cmp.Or(f.refused, err) }
