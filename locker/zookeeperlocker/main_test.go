package zookeeperlocker_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if sharedDir != "" {
		s, _ := shared()
		s.Kill()
		_ = os.RemoveAll(sharedDir)
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// shared is a server for all tests that do it no harm. It ends with TestMain.
var shared = sync.OnceValues(func() (*zktest.Server, error) {
	dir, err := os.MkdirTemp("", "zktest")
	if err != nil {
		return nil, err
	}
	sharedDir = dir
	servers, err := zktest.New(context.Background(), 1, dir, zktest.Settings{})
	if err != nil {
		return nil, err
	}
	return servers[0], nil
})

var (
	sharedDir string // "" before shared was called
	stores    atomic.Int32
)

// session is the timeout of a session that is not to expire.
const session = 30 * time.Second

// store returns the address of a server, and a prefix that no other test has.
func store(t *testing.T) (addr, prefix string) {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.Addr, fmt.Sprintf("/test%d", stores.Add(1))
}
