// Package natstest tests package natslocker on real servers. It is a module of
// its own because of the server's requirements, which users of natslocker must
// not get.
//
// Its servers are processes, so that they can be killed and stopped.
package natstest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Server is one server. Its methods are for one goroutine at a time.
type Server struct {
	Addr string // host:port for clients
	Name string

	program string
	config  string // see package main
	cmd     *exec.Cmd
	stdin   io.Closer // its end ends the server
}

// Settings of a server.
type Settings struct {
	Sync bool // write to the disk before each answer
}

// build builds the program of the servers in dir, and returns its path.
func build(ctx context.Context, dir string) (string, error) {
	// In the folder of this module, because the tests of others may not require
	// what the server does.
	const here = "github.com/go-lockguard/guard/locker/natslocker/natstest"
	folder, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", here).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", here, err)
	}
	path := filepath.Join(dir, "server")
	cmd := exec.CommandContext(ctx, "go", "build", "-race=false", "-o", path, "./server")
	cmd.Dir = strings.TrimSpace(string(folder))
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, text)
	}
	return path, nil
}

// New builds and starts n servers that keep their data in dir, and waits until
// all of them serve. They are a cluster if n is above 1. The caller kills them,
// even after an error.
func New(ctx context.Context, n int, dir string, s Settings) (servers []*Server, err error) {
	path, err := build(ctx, dir)
	if err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(2 * n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		config, err := json.Marshal(map[string]any{
			"Name": name, "Dir": filepath.Join(dir, name), "Client": addrs[i], "Cluster": addrs[n+i],
			"Routes": addrs[n:], "Sync": s.Sync,
		})
		if err != nil {
			return servers, err
		}
		servers = append(servers, &Server{Addr: addrs[i], Name: name, program: path, config: string(config)})
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = s.Start(ctx) })
	}
	all.Wait()
	return servers, errors.Join(errs...)
}

// freeAddrs returns addresses on which nobody listened a moment ago.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// Start starts the server, which is not running, and waits until it takes
// connections.
func (s *Server) Start(ctx context.Context) error {
	s.cmd = exec.Command(s.program, s.config)
	s.cmd.Stderr = os.Stderr
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() { // ends when the server prints a line or ends
		_, err := bufio.NewReader(out).ReadString('\n')
		ready <- err
	}()
	select {
	case err := <-ready:
		if err != nil {
			return fmt.Errorf("the server at %s does not start: %w", s.Addr, err)
		}
		return nil
	case <-ctx.Done():
		s.Kill()
		return ctx.Err()
	}
}

// Kill ends the server by SIGKILL and waits for its end. Start may start it
// again, on its data.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.stdin.Close()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Pause stops the server by SIGSTOP. Its connections stay.
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// Leads reports whether the server leads a bucket.
func (s *Server) Leads(ctx context.Context, bucket string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	leads := false
	err := onJetStream(s.Addr, func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, "KV_"+bucket)
		leads = err == nil && stream.CachedInfo().Cluster != nil && stream.CachedInfo().Cluster.Leader == s.Name
		return err
	})
	return err == nil && leads
}

// Config is that of a bucket as package natslocker wants it.
func Config(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, Replicas: replicas, AllowMsgTTL: true,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DenyDelete: true,
	}
}

// Create makes a bucket. It tries again until ctx ends, because a cluster that
// has just begun has no leader.
func Create(ctx context.Context, addr string, config jetstream.StreamConfig) error {
	for {
		err := onJetStream(addr, func(js jetstream.JetStream) error {
			once, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_, err := js.CreateStream(once, config)
			return err
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// onJetStream runs f on the JetStream of a server.
func onJetStream(addr string, f func(js jetstream.JetStream) error) error {
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return f(js)
}
