package lockmw

import (
	"errors"

	"connectrpc.com/connect"
)

// errInClient returns an error that tells of an interceptor in the wrong place.
// A silent pass would look like a lock.
func errInClient() error {
	return connect.NewError(connect.CodeInternal,
		errors.New("guard: the interceptor of a lock is in a client, but belongs to the options of the handler"))
}

// refusing is a stream of a client that has the interceptor of a handler.
type refusing struct{ connect.StreamingClientConn }

// Send implements [connect.StreamingClientConn].
func (refusing) Send(any) error { return errInClient() }

// Receive implements [connect.StreamingClientConn].
func (refusing) Receive(any) error { return errInClient() }
