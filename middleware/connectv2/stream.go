package lockmw

import (
	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	"github.com/go-lockguard/guard/internal/rpcguard"
)

// stream is a call whose first message was received before its handler runs,
// for the key. The handler gets the message from it. Its methods have the rules
// of [connect.ServerStream]: one call of each at a time.
type stream struct {
	connect.ServerStream

	first    rpcguard.First
	single   bool // there is one response only, which waits for the release
	response any  // the response that waits
}

// Receive implements [connect.ServerStream].
func (s *stream) Receive(message any) error {
	return s.first.Receive(message, copyTo, s.ServerStream.Receive)
}

// copyTo makes a message the same as another, without a copy of its value.
func copyTo(to, from any) {
	m := to.(proto.Message)
	proto.Reset(m)
	proto.Merge(m, from.(proto.Message))
}

// Send implements [connect.ServerStream].
func (s *stream) Send(message any) error {
	if s.single {
		s.response = message
		return nil
	}
	return s.ServerStream.Send(message)
}
