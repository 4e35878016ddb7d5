// Package sqltest gives tests real database servers of their own: PostgreSQL,
// and MariaDB or MySQL, from the system's packages, on free loopback ports and
// with their data in a temporary directory. Nothing of the system's own servers
// is touched.
package sqltest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/internal/testproc"
)

// patience is for a process to do what it was told, on a machine with other
// work.
const patience = 60 * time.Second

// Server is a database server that runs until Close.
type Server struct {
	URL string // with a database that may be written to; the server asks for no password

	dir  string
	addr string
	as   *syscall.SysProcAttr // nil: as we are
	quit os.Signal

	// How it was started, for Restart.
	path  string
	args  func(port string) []string
	ready func(host, port string) bool

	cmd  *exec.Cmd
	gone chan struct{} // closed by the goroutine that waits for the process
}

// Addr is the host and port on which the server listens.
func (s *Server) Addr() string { return s.addr }

// prepare makes a directory for the server, which both refuse to run as root:
// then as the package's own user.
func prepare(name string) (*Server, error) {
	dir, err := os.MkdirTemp("", "sqltest")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if os.Geteuid() != 0 {
		return s, nil
	}
	if err := s.become(name); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// binary finds a command in PATH, or where Debian keeps it.
func binary(name, pkg string, patterns ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(pattern, name))
		if len(found) > 0 {
			slices.Sort(found)
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("sqltest: no %s: install it (Debian, Ubuntu: %s)", name, pkg)
}

func (s *Server) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = s.dir
	// The user of its own may not write to our TMPDIR.
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.dir, "TZ=UTC", "LC_ALL=C")
	cmd.SysProcAttr = s.as
	return cmd
}

// setUp runs a command to its end.
func (s *Server) setUp(path string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := s.command(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("sqltest: %s: %w\n%s", filepath.Base(path), err, out)
	}
	return nil
}

// serve starts the server with the arguments for a port, and returns when ready
// says that it serves.
func (s *Server) serve(path string, args func(port string) []string, ready func(host, port string) bool) (err error) {
	s.path, s.args, s.ready = path, args, ready
	for range 5 { // another process may take the port between choosing and binding it
		addrs, e := testproc.FreeAddrs(1)
		if e != nil {
			return e
		}
		s.addr = addrs[0]
		if err = s.serveOnce(); err == nil {
			return nil
		}
		s.stop()
	}
	return err
}

// serveOnce starts the server on its address.
func (s *Server) serveOnce() error {
	host, port, _ := net.SplitHostPort(s.addr)
	s.cmd, s.gone = s.command(context.Background(), s.path, s.args(port)...), make(chan struct{})
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	err = s.cmd.Start()
	_ = log.Close()
	if err != nil {
		return err
	}
	go func(cmd *exec.Cmd, gone chan<- struct{}) { // ends with the process
		_ = cmd.Wait()
		close(gone)
	}(s.cmd, s.gone)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.gone:
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("sqltest: %s has ended: %v\n%s", filepath.Base(s.path), s.cmd.ProcessState, said)
		default:
		}
		if s.ready(host, port) {
			return nil
		}
	}
	return fmt.Errorf("sqltest: %s does not answer", filepath.Base(s.path))
}

// listens reports whether somebody takes connections there.
func listens(host, port string) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// Close ends the server and removes its data. It may be called again.
func (s *Server) Close() {
	s.stop()
	_ = os.RemoveAll(s.dir)
}

// stop ends the process, if there is one.
func (s *Server) stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(s.quit)
	select {
	case <-s.gone:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.gone
	}
}
