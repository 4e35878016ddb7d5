package lockmw

import (
	"errors"
	"io"
	"reflect"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/go-lockguard/guard/internal/rpcguard"
)

// stream is a call whose first message was received before its handler runs,
// for the key. The handler gets the message from it. Receive has the rules of
// [connect.StreamingHandlerConn]: one call at a time.
type stream struct {
	connect.StreamingHandlerConn

	first   proto.Message           // nil once the handler has it
	rest    func(message any) error // receives the others
	refused error                   // why the handler could not have it
}

// receiveFirst receives the first message, which must be of type t.
// receiveFirst blocks until the client has sent it. A stream that ends without
// a message has no key.
//
// If there is only one message, receiveFirst also receives the end. Before that
// a server of HTTP/1.1 does not hear of a client that has gone.
func (s *stream) receiveFirst(t reflect.Type) error {
	if !t.Implements(reflect.TypeFor[proto.Message]()) || t.Kind() != reflect.Pointer {
		return rpcguard.WrongType(reflect.Zero(t).Interface())
	}
	first := reflect.New(t.Elem()).Interface().(proto.Message)
	if err := s.StreamingHandlerConn.Receive(first); err != nil {
		if errors.Is(err, io.EOF) {
			return rpcguard.ErrNoKey
		}
		return err
	}
	s.first, s.rest = first, s.StreamingHandlerConn.Receive
	if s.Spec().StreamType == connect.StreamTypeServer {
		end := s.rest(reflect.New(t.Elem()).Interface())
		s.rest = func(any) error { return end }
	}
	return nil
}

// Receive implements [connect.StreamingHandlerConn].
func (s *stream) Receive(message any) error {
	switch {
	case s.refused != nil:
		return s.refused
	case s.first == nil:
		return s.rest(message)
	}
	first := s.first
	s.first = nil
	if reflect.TypeOf(first) != reflect.TypeOf(message) {
		s.refused = rpcguard.WrongType(message)
		return s.refused
	}
	to := message.(proto.Message) // must not be copied as a value
	proto.Reset(to)
	proto.Merge(to, first)
	return nil
}

// refusedOr returns the handler's error. A handler that could not have its
// first message cannot hide that.
func (s *stream) refusedOr(err error) error {
	if s.refused != nil {
		return s.refused
	}
	return err
}
