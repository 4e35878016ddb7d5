package redistest

import (
	"testing"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

// Server is a redis-server process of its own on a loopback port, which ends
// with its test. What cannot be done to it fails the test.
type Server struct {
	*redisproc.Server

	t testing.TB
}

// Lab returns a place for servers that end with t.
func Lab(t testing.TB) *redisproc.Lab {
	t.Helper()
	lab := &redisproc.Lab{Dir: t.TempDir()}
	t.Cleanup(lab.Close)
	return lab
}

// Start starts a redis-server with args added to its command line, waits until
// it answers and kills it when t ends. Without args it keeps everything in
// memory.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartN(t, 1, args...)[0]
}

// StartN starts n servers that know nothing of each other.
func StartN(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	procs, err := Lab(t).StartN(n, args...)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, procs)
}

// StartWithClock starts a redis-server whose wall clock can be shifted. It
// fails the test where that cannot be had: see [redisproc.ErrNoClock].
func StartWithClock(t testing.TB, args ...string) *Server {
	t.Helper()
	lab := Lab(t)
	lab.Clocks = true
	p, err := lab.Start(args...)
	if err != nil {
		t.Fatal(err)
	}
	return &Server{p, t}
}

// Stop freezes the server, as a hung machine would; it returns when the process
// has stopped.
func (s *Server) Stop() { s.t.Helper(); s.must(s.Server.Stop()) }

// Cont lets a frozen server go on with what its sockets hold.
func (s *Server) Cont() { s.t.Helper(); s.must(s.Server.Cont()) }

// Restart starts the server again where it was, without what it did not write
// to its disk.
func (s *Server) Restart() { s.t.Helper(); s.must(s.Server.Restart()) }

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
