package lockmw

import (
	"errors"
	"io"
	"reflect"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	"github.com/go-lockguard/guard/internal/rpcguard"
)

// stream is a call whose first message was received before its handler runs,
// for the key. The handler gets the message from it. Its methods have the rules
// of [connect.ServerStream]: one call of each at a time.
type stream struct {
	connect.ServerStream

	first    proto.Message // nil once the handler has it
	refused  error         // why the handler could not have it
	single   bool          // there is one response only, which waits for the release
	response any           // the response that waits
}

// receiveFirst receives the first message, which must be of type t.
// receiveFirst blocks until the client has sent it. A stream that ends without
// a message has no key.
func (s *stream) receiveFirst(t reflect.Type) error {
	if t.Kind() != reflect.Pointer {
		return rpcguard.WrongType(reflect.Zero(t).Interface())
	}
	first := reflect.New(t.Elem()).Interface().(proto.Message)
	if err := s.ServerStream.Receive(first); err != nil {
		if errors.Is(err, io.EOF) {
			return rpcguard.ErrNoKey
		}
		return err
	}
	s.first = first
	return nil
}

// Receive implements [connect.ServerStream].
func (s *stream) Receive(message any) error {
	switch {
	case s.refused != nil:
		return s.refused
	case s.first == nil:
		return s.ServerStream.Receive(message)
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

// Send implements [connect.ServerStream].
func (s *stream) Send(message any) error {
	if s.single {
		s.response = message
		return nil
	}
	return s.ServerStream.Send(message)
}

// refusedOr returns the handler's error. A handler that could not have its
// first message cannot hide that.
func (s *stream) refusedOr(err error) error {
	if s.refused != nil {
		return s.refused
	}
	return err
}
