package lockmw

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/rpcguard"
)

// stream is a call that is locked by its first message. Its methods have the
// concurrency rules of [grpc.ServerStream].
type stream struct {
	grpc.ServerStream

	rule *rpcguard.Rule

	mu      sync.Mutex   // guards the fields below; held for a few instructions
	lease   *guard.Lease // nil before the first message
	refused error        // why there is no lease
	over    bool         // the handler has returned
}

// Context returns a context that ends when the lease is lost, if it is called
// after the first message.
func (s *stream) Context() context.Context {
	if l, _ := s.state(); l != nil {
		return l.Context()
	}
	return s.ServerStream.Context()
}

// RecvMsg receives a message; the first one waits for its key.
func (s *stream) RecvMsg(m any) error {
	l, refused := s.state()
	if refused != nil {
		return refused
	}
	if err := s.ServerStream.RecvMsg(m); err != nil || l != nil {
		return err
	}
	return s.lock(m)
}

// lock acquires the key of the first message.
func (s *stream) lock(m any) error {
	ctx := s.ServerStream.Context()
	l, err := s.rule.Acquire(ctx, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.refused = l, answer(ctx, s.rule, err)
	if s.over && l != nil { // the handler did not wait for its own goroutine
		s.lease = nil
		go func() { _ = l.Release(l.Context()) }() // within 1 s
	}
	return s.refused
}

// serve runs handler and releases the lease, if there is one, whatever handler
// does. If the key was refused the handler has not done its work, so serve
// returns the refusal whatever handler returns.
func (s *stream) serve(handler func() error) (err error) {
	defer func() {
		if lost := s.end(); lost != nil {
			err = errors.Join(lost, err)
		}
	}()
	err = handler()
	if _, refused := s.state(); refused != nil {
		return refused
	}
	if !guard.Ran(err) { // it looks like a refusal of the stream's own key
		err = errnote.With(err, errnote.Ran(true))
	}
	return err
}

// end releases the lease and returns its loss, if there is one and it was lost.
func (s *stream) end() error {
	s.mu.Lock()
	s.over = true
	l := s.lease
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	err := l.Release(l.Context())
	if errors.Is(err, guard.ErrLeaseLost) {
		return err
	}
	return nil
}

func (s *stream) state() (*guard.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease, s.refused
}
