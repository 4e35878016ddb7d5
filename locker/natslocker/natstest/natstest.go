// Package natstest tests package natslocker on real servers. It is a module of
// its own because of the server's requirements, which users of natslocker must
// not get.
//
// Its servers are processes, so that they can be killed and stopped.
package natstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-lockguard/guard/internal/testproc"
)

// Server is one server. Its methods are for one goroutine at a time.
type Server struct {
	testproc.Process

	Addr string // host:port for clients
	Name string

	program string
	config  string // see package main
}

// Settings of a server.
type Settings struct {
	Sync bool // write to the disk before each answer
}

// New builds and starts n servers that keep their data in dir, and waits until
// all of them serve. They are a cluster if n is above 1. The caller kills them,
// even after an error.
func New(ctx context.Context, n int, dir string, s Settings) (servers []*Server, err error) {
	path, err := testproc.Build(ctx, "github.com/go-lockguard/guard/locker/natslocker/natstest", dir)
	if err != nil {
		return nil, err
	}
	addrs, err := testproc.FreeAddrs(2 * n)
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

// Start starts the server, which is not running, on its data. It waits until
// the server takes connections.
func (s *Server) Start(ctx context.Context) error { return s.Serve(ctx, s.program, s.config) }

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
