package natslocker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/natslocker"
)

// start starts a server with JetStream on a free port, which options may change.
func start(t *testing.T, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, MaxPayload: 2 << 20, StoreDir: t.TempDir(), NoSigs: true}
	for _, f := range change {
		f(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

// connect returns a connection that ends with the test.
func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

var buckets atomic.Int64

// bucket makes a bucket that nobody else uses.
func bucket(t *testing.T, nc *nats.Conn) string {
	t.Helper()
	name := fmt.Sprintf("b%d", buckets.Add(1))
	create(t, nc, settings(name))
	return name
}

// settings are those that the documentation asks for, but for the replicas.
func settings(bucket string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, AllowMsgTTL: true,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DenyDelete: true,
	}
}

func create(t *testing.T, nc *nats.Conn, c jetstream.StreamConfig) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(context.Background(), c); err != nil {
		t.Fatal(err)
	}
}

func TestLocker(t *testing.T) {
	s := start(t)
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		nc := connect(t, s.ClientURL())
		name := bucket(t, nc)
		return natslocker.New(nc, name), natslocker.New(connect(t, s.ClientURL()), name)
	})
}
