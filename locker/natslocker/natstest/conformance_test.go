package natstest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/natslocker"
	"github.com/go-lockguard/guard/locker/natslocker/natstest"
)

// start starts a server with JetStream on a free port, which options may
// change.
func start(t *testing.T, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, MaxPayload: 2 << 20, StoreDir: t.TempDir(), NoSigs: true,
	}
	for _, f := range change {
		f(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(testguard.Patience) {
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
func settings(bucket string) jetstream.StreamConfig { return natstest.Config(bucket, 1) }

func create(t *testing.T, nc *nats.Conn, c jetstream.StreamConfig) {
	t.Helper()
	if err := tryCreate(nc, c); err != nil {
		t.Fatal(err)
	}
}

func tryCreate(nc *nats.Conn, c jetstream.StreamConfig) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err = js.CreateStream(ctx, c)
	return err
}

func TestLocker(t *testing.T) {
	s := start(t)
	lockertest.Run(t, func(t *testing.T) (a, b locker.Locker) {
		t.Helper()
		nc := connect(t, s.ClientURL())
		name := bucket(t, nc)
		return natslocker.New(nc, name), natslocker.New(connect(t, s.ClientURL()), name)
	})
}

// The server hangs, or hangs up on everybody and takes no connection, and comes
// back.
func TestFaulty(t *testing.T) {
	for name, fault := range map[string]func(*faultpipe.Lossy) (mend func()){
		"hung": (*faultpipe.Lossy).Hang, "refused": (*faultpipe.Lossy).Refuse,
	} {
		t.Run(name, func(t *testing.T) {
			lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
				t.Helper()
				s := start(t)
				p := faultpipe.NewLossy(t, s.Addr().String())
				name := bucket(t, connect(t, s.ClientURL()))
				client := func() *natslocker.Locker { return natslocker.New(connect(t, "nats://"+p.Addr), name) }
				return client(), client(), func() (mend func()) { return fault(p) }
			}, lockertest.AtOnce(4))
		})
	}
}
