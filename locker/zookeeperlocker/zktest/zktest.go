// Package zktest starts ZooKeeper servers for tests, from the jars that Debian's
// package libzookeeper-java installs. They listen on free loopback ports.
package zktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/internal/testproc"
)

// Server is one server. Its methods are for one goroutine at a time.
type Server struct {
	testproc.Process

	Addr string // host:port for clients

	config string // its file
	dir    string
}

// Settings of a server.
type Settings struct {
	Sync bool // write to the disk, as a real server does
}

// classPath finds the jars.
func classPath() (string, error) {
	var all []string
	for _, name := range []string{
		"zookeeper.jar", "zookeeper-jute.jar", "slf4j-api.jar", "slf4j-nop.jar", "netty-*.jar", "snappy-java.jar",
		"commons-io.jar", "commons-cli.jar", "metrics-core.jar",
	} {
		found, _ := filepath.Glob("/usr/share/java/" + name)
		if len(found) == 0 && !strings.HasPrefix(name, "slf4j-nop") {
			return "", fmt.Errorf(
				"zktest: no %s: install it (Debian, Ubuntu: libzookeeper-java and default-jre-headless)", name)
		}
		all = append(all, found...)
	}
	return strings.Join(all, ":"), nil
}

// New starts n servers that keep their data in dir, and waits until all of them
// serve. They are an ensemble if n is above 1. The caller kills them, even after
// an error.
func New(ctx context.Context, n int, dir string, s Settings) ([]*Server, error) {
	addrs, err := testproc.FreeAddrs(3 * n)
	if err != nil {
		return nil, err
	}
	var ensemble strings.Builder
	for i := range n {
		if n > 1 {
			_, peer, _ := net.SplitHostPort(addrs[n+i])
			_, vote, _ := net.SplitHostPort(addrs[2*n+i])
			fmt.Fprintf(&ensemble, "server.%d=127.0.0.1:%s:%s\n", i+1, peer, vote)
		}
	}
	servers := make([]*Server, n)
	for i := range n {
		servers[i] = &Server{Addr: addrs[i], dir: filepath.Join(dir, fmt.Sprint("server", i+1))}
		if err := servers[i].configure(i+1, ensemble.String(), s); err != nil {
			return servers[:i], err
		}
	}
	for _, s := range servers {
		err = errors.Join(err, s.launch())
	}
	for _, s := range servers {
		if err == nil {
			err = s.await(ctx)
		}
	}
	return servers, err
}

func (s *Server) configure(id int, ensemble string, settings Settings) error {
	_, port, _ := net.SplitHostPort(s.Addr)
	sync := "no"
	if settings.Sync {
		sync = "yes"
	}
	text := fmt.Sprintf("tickTime=500\ninitLimit=20\nsyncLimit=10\nminSessionTimeout=1000\nmaxSessionTimeout=60000\n"+
		"dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"+
		"4lw.commands.whitelist=srvr\nforceSync=%s\n%s", s.dir, port, sync, ensemble)
	s.config = filepath.Join(s.dir, "zoo.cfg")
	const private = 0o700
	return errors.Join(
		os.MkdirAll(s.dir, private),
		os.WriteFile(filepath.Join(s.dir, "myid"), fmt.Append(nil, id), private),
		os.WriteFile(s.config, []byte(text), private),
	)
}

// launch starts the process.
func (s *Server) launch() error {
	path, err := classPath()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command("java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", s.config)
	cmd.Stdout, cmd.Stderr = log, log
	return s.Run(cmd)
}

// Start starts the server again, on its data, and waits until it serves.
func (s *Server) Start(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return err
	}
	return s.await(ctx)
}

// await waits until the server says that it is part of a quorum.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, testguard.Patience)
	defer cancel()
	for {
		if strings.Contains(s.ask(ctx, "srvr"), "Mode: ") {
			return nil
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("zktest: the server at %s does not serve: %w\n%s", s.Addr, ctx.Err(), log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask returns the server's answer to a word of four letters, or "".
func (s *Server) ask(ctx context.Context, word string) string {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte(word))
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// Leads reports whether the server is the leader.
func (s *Server) Leads(ctx context.Context) bool {
	return strings.Contains(s.ask(ctx, "srvr"), "Mode: leader")
}

// Start starts n servers that end with tb.
func Start(tb testing.TB, n int, s Settings) []*Server {
	tb.Helper()
	servers, err := New(tb.Context(), n, tb.TempDir(), s)
	tb.Cleanup(func() {
		for _, s := range servers {
			s.Kill()
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	return servers
}

// Connect returns a connection that is closed when tb ends.
func Connect(tb testing.TB, session time.Duration, addrs ...string) *zk.Conn {
	tb.Helper()
	c, err := Dial(session, addrs...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// Dial returns a connection that the caller must close.
func Dial(session time.Duration, addrs ...string) (*zk.Conn, error) {
	c, _, err := zk.Connect(addrs, session, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	return c, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}
