package lockmw

import (
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

	first rpcguard.First
	rest  func(message any) error // receives the others
}

// receiveFirst receives the first message, which must be of type t.
// receiveFirst blocks until the client has sent it. A stream that ends without
// a message has no key.
//
// If there is only one message, receiveFirst also receives the end. Before that
// a server of HTTP/1.1 does not hear of a client that has gone.
func (s *stream) receiveFirst(t reflect.Type) (err error) {
	if !t.Implements(reflect.TypeFor[proto.Message]()) {
		return rpcguard.WrongType(reflect.Zero(t).Interface())
	}
	s.rest = s.StreamingHandlerConn.Receive
	if s.first, err = rpcguard.ReceiveFirst(t, s.rest); err != nil {
		return err
	}
	if s.Spec().StreamType == connect.StreamTypeServer {
		end := s.rest(reflect.New(t.Elem()).Interface())
		s.rest = func(any) error { return end }
	}
	return nil
}

// Receive implements [connect.StreamingHandlerConn].
func (s *stream) Receive(message any) error { return s.first.Receive(message, copyTo, s.rest) }

// copyTo makes a message the same as another, without a copy of its value.
func copyTo(to, from any) {
	m := to.(proto.Message)
	proto.Reset(m)
	proto.Merge(m, from.(proto.Message))
}
