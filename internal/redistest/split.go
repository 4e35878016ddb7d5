package redistest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Split makes the proxy send new connections that subscribe to the replica at
// addr, as a proxy does that splits reads from writes. All other connections
// stay with the proxy's server. "" ends that.
func (p *Proxy) Split(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replica = addr
}

// splitting is a connection to a server that leaves for the replica when its
// client subscribes. Up writes to it and Down reads from it, one goroutine each.
type splitting struct {
	net.Conn

	replica string

	mu     sync.Mutex // guards left; never held across I/O
	left   net.Conn   // to the replica; nil before the client has subscribed
	closed bool
}

// Write passes a request on. Subscriptions come in bursts of their own.
func (s *splitting) Write(b []byte) (int, error) {
	if to := s.where(); to != s.Conn || !bytes.Contains(bytes.ToLower(b), []byte("\r\nsubscribe\r\n")) {
		return to.Write(b)
	}
	to, err := net.Dial("tcp", s.replica)
	if err != nil {
		return 0, err
	}
	if !s.leave(to) {
		return 0, errors.Join(net.ErrClosed, to.Close())
	}
	_ = s.SetReadDeadline(time.Now()) // ends the read under way
	return to.Write(b)
}

// where returns the connection that is in use.
func (s *splitting) where() net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left != nil {
		return s.left
	}
	return s.Conn
}

// leave makes to the connection that is in use, unless the client has gone.
func (s *splitting) leave(to net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.left = to
	return true
}

func (s *splitting) Read(b []byte) (int, error) {
	from := s.where()
	n, err := from.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && s.where() != from {
		return s.where().Read(b)
	}
	return n, err
}

func (s *splitting) Close() error {
	s.mu.Lock()
	s.closed = true
	left := s.left
	s.mu.Unlock()
	if left != nil {
		_ = left.Close()
	}
	return s.Conn.Close()
}
