// Package host has the parts that processes of this module share. They are a
// redis-server, and memory for several processes.
package host

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

// Server is the redis-server of this run. It keeps everything in memory.
type Server struct {
	Addr   string
	Client *redis.Client // for the parent's own errands

	lab     *redisproc.Lab
	process *redisproc.Server
}

// StartServer starts a redis-server with a directory in dir. It returns when the
// server answers.
func StartServer(dir string) (*Server, error) {
	lab := &redisproc.Lab{Dir: dir}
	s, err := lab.Start()
	if err != nil {
		return nil, err
	}
	return &Server{Addr: s.Addr, Client: redis.NewClient(&redis.Options{Addr: s.Addr}), lab: lab, process: s}, nil
}

// Version returns the version that the server reports, or "unknown".
func (s *Server) Version(ctx context.Context) string {
	for _, section := range s.Client.InfoMap(ctx, "server").Val() {
		return section["redis_version"]
	}
	return "unknown"
}

// Freeze stops the server, so that it gives no answer until Thaw.
func (s *Server) Freeze() error { return s.process.Stop() }

// Thaw ends a Freeze.
func (s *Server) Thaw() error { return s.process.Cont() }

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.Client.Close()
	s.lab.Close()
}
