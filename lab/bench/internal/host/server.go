// Package host has the parts that programs of this module share. They are a
// redis-server, memory for several processes, and children that do not outlive
// their parent.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is the redis-server of this run. It keeps everything in memory and
// uses a free loopback port.
type Server struct {
	Addr   string
	Client *redis.Client // for the parent's own errands

	cmd  *exec.Cmd
	log  bytes.Buffer  // read after gone
	gone chan struct{} // closed when the process has ended
}

var errNoServer = errors.New("redis-server is not in PATH: install Redis 7.0.5 or newer (Debian, Ubuntu: " +
	"redis-server; macOS: brew install redis)")

// StartServer starts a redis-server with dir as its working directory. It
// returns when the server answers.
func StartServer(ctx context.Context, dir string) (*Server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoServer
	}
	var log string
	for range 5 { // another process may take the port between choosing and binding it
		s, err := tryServer(ctx, binary, dir)
		if err != nil {
			return nil, err
		}
		if s.answers(ctx) {
			return s, nil
		}
		s.Stop()
		log = s.log.String()
	}
	return nil, fmt.Errorf("redis-server does not answer; its log:\n%s", log)
}

func tryServer(ctx context.Context, binary, dir string) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	s := &Server{Addr: addr, Client: redis.NewClient(&redis.Options{Addr: addr}), gone: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, binary, //nolint:gosec // found in PATH by its own name
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no")
	s.cmd.Stdout = &s.log
	DieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		_ = s.cmd.Wait()
		close(s.gone)
	}()
	return s, nil
}

// answers waits until the server answers. It returns false if the server ends
// before or takes very long.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case <-s.gone:
			return false
		default:
		}
		if s.Client.Ping(ctx).Err() == nil {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// Version returns the version that the server reports, or "unknown".
func (s *Server) Version(ctx context.Context) string {
	for _, section := range s.Client.InfoMap(ctx, "server").Val() {
		return section["redis_version"]
	}
	return "unknown"
}

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.Client.Close()
	_ = s.cmd.Process.Kill()
	<-s.gone
}
