package redistest

import (
	"testing"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

// Server is a redis-server process on a loopback port. It ends with its test. A
// method that fails makes the test fail.
type Server struct {
	*redisproc.Server

	t testing.TB
}

// Lab returns a lab whose servers end with t.
func Lab(t testing.TB) *redisproc.Lab {
	t.Helper()
	lab := &redisproc.Lab{Dir: t.TempDir()}
	t.Cleanup(lab.Close)
	return lab
}

// Start starts a redis-server with args added to its command line. It waits
// until the server answers, and kills it when t ends. Without args the server
// keeps everything in memory.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartN(t, 1, args...)[0]
}

// StartN starts n independent servers.
func StartN(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	procs, err := Lab(t).StartN(n, args...)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, procs)
}

// StartWithClock starts a redis-server whose wall clock can be shifted. It
// fails the test if that is impossible here, see [redisproc.ErrNoClock].
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

// Stop freezes the server, like a machine that hangs. It returns when the
// process has stopped.
func (s *Server) Stop() { s.t.Helper(); s.must(s.Server.Stop()) }

// Cont lets a frozen server go on. It handles the requests that its sockets
// have received meanwhile.
func (s *Server) Cont() { s.t.Helper(); s.must(s.Server.Cont()) }

// Restart starts the server again with the same directory and port. Data that
// it did not write to its disk is lost.
func (s *Server) Restart() { s.t.Helper(); s.must(s.Server.Restart()) }

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
