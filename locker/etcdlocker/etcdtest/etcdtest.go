// Package etcdtest tests package etcdlocker on real servers.
// It is a module of its own because of the server's requirements, which users
// of etcdlocker must not get.
//
// Its servers are processes, so that they can be killed and stopped. All of
// them run one program, which is built once in a test.
package etcdtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/go-lockguard/guard/internal/testproc"
)

// Member is one server. Its methods are for one goroutine at a time.
type Member struct {
	testproc.Process

	Addr string // host:port for clients

	program string
	config  map[string]any
}

// Settings of a server.
type Settings struct {
	Sync  bool  // write to the disk, as a real server does
	Quota int64 // bytes of the database; 0 is etcd's default

	// Cert and Key are files for TLS. Clients need a certificate that Cert has
	// signed. "" is no TLS.
	Cert, Key string
}

// program builds the server once in this process, in the folder built, and
// returns its path.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "etcdtest")
	if err != nil {
		return "", err
	}
	built = dir
	return testproc.Build(context.Background(), "github.com/go-lockguard/guard/locker/etcdlocker/etcdtest", dir)
})

// built is set by program. Main reads it when the tests are over.
var built string

// Main runs the tests of a package, and deletes the server's program
// afterwards. It returns the code to exit with.
func Main(run func() int) int {
	defer func() {
		if built != "" {
			_ = os.RemoveAll(built)
		}
	}()
	return run()
}

// NewCluster starts n servers that keep their data in dir.
func NewCluster(ctx context.Context, n int, dir string, s Settings) ([]*Member, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	ports, err := testproc.FreeAddrs(2 * n)
	if err != nil {
		return nil, err
	}
	var cluster []string
	for i := range n {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, ports[n+i]))
	}
	scheme := "http://"
	if s.Cert != "" {
		scheme = "https://"
	}
	members := make([]*Member, n)
	errs := make(chan error, n)
	for i := range n {
		name := fmt.Sprintf("m%d", i)
		members[i] = &Member{Addr: ports[i], program: path, config: map[string]any{
			"Name": name, "Dir": filepath.Join(dir, name),
			"Client": scheme + ports[i], "Peer": "http://" + ports[n+i],
			"Cluster": strings.Join(cluster, ","), "Sync": s.Sync, "Quota": s.Quota,
			"Cert": s.Cert, "Key": s.Key,
		}}
		go func() { errs <- members[i].Start(ctx) }()
	}
	for range n {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return members, err
}

// Start starts the server, which is not running, on its data. It waits until
// the server serves.
func (m *Member) Start(ctx context.Context) error {
	config, err := json.Marshal(m.config)
	if err != nil {
		return err
	}
	return m.Serve(ctx, m.program, string(config))
}

// Config is for a client of the addresses, with the settings that package
// etcdlocker recommends.
func Config(addrs ...string) clientv3.Config {
	return clientv3.Config{
		Endpoints: addrs, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: time.Second,
	}
}

// Start starts a cluster of n servers that ends with tb.
func Start(tb testing.TB, n int, s Settings) []*Member {
	tb.Helper()
	if _, err := program(); err != nil { // a build takes as long as it takes
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	members, err := NewCluster(ctx, n, tb.TempDir(), s)
	tb.Cleanup(func() {
		for _, m := range members {
			m.Kill()
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	return members
}

// Client returns a client of the addresses that is closed when tb ends.
func Client(tb testing.TB, addrs ...string) *clientv3.Client {
	tb.Helper()
	c, err := clientv3.New(Config(addrs...))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}
