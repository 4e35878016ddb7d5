package natstest_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/natslocker"
	"github.com/go-lockguard/guard/locker/natslocker/natstest"
)

// patience bounds the wait for what must come.
const patience = time.Minute

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
	for name, fault := range map[string]func(*wire) (mend func()){"hung": (*wire).hang, "refused": (*wire).refuse} {
		t.Run(name, func(t *testing.T) {
			lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
				t.Helper()
				s := start(t)
				l := relay(t, s.Addr().String())
				name := bucket(t, connect(t, s.ClientURL()))
				client := func() *natslocker.Locker { return natslocker.New(connect(t, l.url()), name) }
				return client(), client(), func() (mend func()) { return fault(l) }
			}, lockertest.AtOnce(4))
		})
	}
}

// wire is a relay of TCP that can hang, or refuse connections.
type wire struct {
	to      string
	l       net.Listener
	mu      sync.Mutex
	hung    chan struct{} // closed while bytes pass
	refused bool
	conns   map[net.Conn]bool
}

func relay(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: to, l: l, hung: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(w.hung)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); w.cut(); wg.Wait() })
	return w
}

func (w *wire) url() string { return "nats://" + w.l.Addr().String() }

func (w *wire) serve(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer s.Close()
	w.mu.Lock()
	refused := w.refused
	w.conns[c], w.conns[s] = true, true
	w.mu.Unlock()
	if refused {
		return
	}
	go func() { w.copy(s, c); s.Close() }()
	w.copy(c, s)
}

func (w *wire) copy(to, from net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		w.mu.Lock()
		hung := w.hung
		w.mu.Unlock()
		<-hung
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
	clear(w.conns)
}

func (w *wire) hang() (mend func()) {
	hung := make(chan struct{})
	w.mu.Lock()
	w.hung = hung
	w.mu.Unlock()
	return func() { close(hung) }
}

func (w *wire) refuse() (mend func()) {
	w.mu.Lock()
	w.refused = true
	w.mu.Unlock()
	w.cut()
	return func() { w.mu.Lock(); w.refused = false; w.mu.Unlock() }
}
