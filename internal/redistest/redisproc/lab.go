// Package redisproc runs real Redis servers as processes on free loopback
// ports. It runs single servers, a primary with replicas under Sentinel, and a
// Cluster. Servers can be frozen, killed, restarted and failed over, and their
// clocks shifted. Package redistest wraps this package for tests.
package redisproc

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	patience = 2 * time.Minute // for a process to obey, on a busy machine
	pause    = 5 * time.Millisecond
)

// Lab starts servers and owns their processes. Close ends them. The fields must
// be set before the first method is called. The methods are safe for concurrent
// use.
type Lab struct {
	Dir    string // parent of the servers' directories; must exist
	Binary string // "redis-server" if it is empty; see [Binaries]
	Clocks bool   // whether wall clocks can be shifted, see [Server.ShiftClock]

	mu      sync.Mutex // guards servers; never held across I/O
	servers []*Server
	shim    func() (string, error) // set with the first server
}

// Binaries returns the server programs that are in PATH, which are
// "redis-server", "valkey-server" or both.
func Binaries() []string {
	return slices.DeleteFunc([]string{"redis-server", "valkey-server"}, func(name string) bool {
		_, err := exec.LookPath(name)
		return err != nil
	})
}

// Start starts a server with args added to its command line. It waits until the
// server answers. Without args the server keeps everything in memory.
func (l *Lab) Start(args ...string) (*Server, error) {
	return l.start(func(_ string, port int) ([]string, error) {
		return append([]string{"--port", strconv.Itoa(port), "--save", ""}, args...), nil
	})
}

// StartN starts n independent servers.
func (l *Lab) StartN(n int, args ...string) ([]*Server, error) {
	servers := make([]*Server, n)
	for i := range servers {
		var err error
		if servers[i], err = l.Start(args...); err != nil {
			return nil, err
		}
	}
	return servers, nil
}

// Close kills all servers, frozen ones too, and returns when their processes
// have ended. It may be called again.
func (l *Lab) Close() {
	l.mu.Lock()
	servers := l.servers
	l.servers = nil
	l.mu.Unlock()
	for _, s := range servers {
		s.Kill()
	}
}

// start starts a server. args makes the command line from its directory and
// port.
func (l *Lab) start(args func(dir string, port int) ([]string, error)) (*Server, error) {
	name := cmp.Or(l.Binary, "redis-server")
	binary, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("redisproc: %s is not in PATH: install Redis 5 or newer (Debian, Ubuntu: "+
			"redis-server; macOS: brew install redis)", name)
	}
	var s *Server
	for range 5 { // the guard of another process may take the port between choosing and binding it
		if s, err = l.prepare(binary, args); err != nil {
			return nil, err
		}
		if err = s.Restart(); err == nil {
			l.mu.Lock()
			l.servers = append(l.servers, s)
			l.mu.Unlock()
			return s, nil
		}
	}
	return nil, err
}

// prepare chooses the directory and port of a server.
func (l *Lab) prepare(binary string, args func(dir string, port int) ([]string, error)) (*Server, error) {
	if l.Dir == "" { // it would be the current directory, where logs would stay
		return nil, errors.New("redisproc: Lab.Dir is empty, want a directory for what the servers leave")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(l.Dir, strconv.Itoa(port))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("redisproc: %w", err)
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Dir: dir, binary: binary}
	if s.args, err = args(dir, port); err != nil {
		return nil, err
	}
	if l.Clocks {
		return s, l.addClock(s)
	}
	return s, nil
}

// freePort looks below the ports that the kernel gives to connections, because
// a restarted server needs its port again.
func freePort() (int, error) {
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("redisproc: no free port found")
}

// await waits until the condition is true, but not forever.
func await(what string, so func() bool) error {
	for end := time.Now().Add(patience); !so(); time.Sleep(pause) {
		if time.Now().After(end) {
			return fmt.Errorf("redisproc: it takes more than %v: %s", patience, what)
		}
	}
	return nil
}
