// Package redisproc runs real Redis servers as processes of their own on free
// loopback ports: single ones, a primary with replicas under Sentinel, a
// Cluster. They can be frozen, killed, restarted, failed over, and lied to
// about the time. It knows nothing of tests; package redistest wraps it for
// them.
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
	patience = 10 * time.Second // for a process to do what it was told
	pause    = 5 * time.Millisecond
)

// Lab is where servers are started: it owns their processes, and Close ends
// them. Its fields are set before its first method is called; its methods are
// safe for concurrent use.
type Lab struct {
	Dir    string // of the servers' directories; must exist
	Binary string // "redis-server" if it is empty; see [Binaries]
	Clocks bool   // the servers' wall clocks can be shifted, see [Server.ShiftClock]

	mu      sync.Mutex // guards servers; never held across I/O
	servers []*Server
	shim    func() (string, error) // set with the first server
}

// Binaries returns which servers are in PATH: "redis-server", "valkey-server"
// or both.
func Binaries() []string {
	return slices.DeleteFunc([]string{"redis-server", "valkey-server"}, func(name string) bool {
		_, err := exec.LookPath(name)
		return err != nil
	})
}

// Start starts a server with args added to its command line, and waits until it
// answers. Without args it keeps everything in memory.
func (l *Lab) Start(args ...string) (*Server, error) {
	return l.start(func(_ string, port int) ([]string, error) {
		return append([]string{"--port", strconv.Itoa(port), "--save", ""}, args...), nil
	})
}

// StartN starts n servers that know nothing of each other.
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

// start starts a server whose command line is what args makes of its directory
// and port.
func (l *Lab) start(args func(dir string, port int) ([]string, error)) (*Server, error) {
	name := cmp.Or(l.Binary, "redis-server")
	binary, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("redisproc: %s is not in PATH: install Redis 5 or newer (Debian, Ubuntu: "+
			"redis-server; macOS: brew install redis)", name)
	}
	var s *Server
	for range 5 { // another process may take the port between choosing and binding it
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

// prepare gives a server its place.
func (l *Lab) prepare(binary string, args func(dir string, port int) ([]string, error)) (*Server, error) {
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

// freePort looks below the ports that the kernel gives to connections: a server
// that is restarted needs its own again.
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

// await waits until it is so, but not for ever.
func await(what string, so func() bool) error {
	for end := time.Now().Add(patience); !so(); time.Sleep(pause) {
		if time.Now().After(end) {
			return fmt.Errorf("redisproc: it takes more than %v: %s", patience, what)
		}
	}
	return nil
}
