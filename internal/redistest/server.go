package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = 10 * time.Second // for a process to do what it was told

// Server is a redis-server process of its own on a loopback port.
type Server struct {
	Addr string
	Dir  string // its working directory, with its log

	t    testing.TB
	cmd  *exec.Cmd
	gone chan struct{} // closed by the goroutine that waits for the process
}

// Start starts a redis-server with args added to its command line, waits until it answers and kills it when t ends.
// Without args it keeps everything in memory.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redistest: redis-server is not in PATH: install Redis 5 or newer (Debian, Ubuntu: redis-server; macOS: brew install redis)")
	}
	var s *Server
	for range 5 { // another process may take the port between choosing and binding it
		if s = start(t, binary, args); s.answers() {
			return s
		}
		s.Kill()
	}
	log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	t.Fatalf("redistest: redis-server %v does not answer; its log:\n%s", args, log)
	return nil
}

func start(t testing.TB, binary string, args []string) *Server {
	t.Helper()
	port := freePort(t)
	s := &Server{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Dir:  t.TempDir(), t: t, gone: make(chan struct{}),
	}
	s.cmd = exec.Command(binary, append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--logfile", "log",
	}, args...)...)
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	go func() { // ends with the process
		_ = s.cmd.Wait()
		close(s.gone)
	}()
	t.Cleanup(s.Kill)
	return s
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// answers waits until the server answers a PING, if only to ask for a password; false if it ends before.
func (s *Server) answers() bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-s.gone:
			return false
		default:
		}
		if reply := ping(s.Addr); strings.HasPrefix(reply, "+PONG") || strings.HasPrefix(reply, "-NOAUTH") {
			return true
		}
	}
	return false
}

func ping(addr string) string {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprint(c, "PING\r\n")
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}

// Stop freezes the server, as a hung machine would; it returns when the process has stopped.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP, true) }

// Cont lets a frozen server go on with what its sockets hold.
func (s *Server) Cont() { s.signal(syscall.SIGCONT, false) }

// Kill ends the server at once. It may be called again.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.gone
}

// signal sends sig and waits until the kernel says that the process is stopped, or is not.
func (s *Server) signal(sig os.Signal, stopped bool) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	for end := time.Now().Add(patience); s.stopped() != stopped; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("redistest: redis-server did not obey %v", sig)
		}
	}
}

// stopped reads the state from /proc/PID/stat: the field behind the command's name in parentheses.
func (s *Server) stopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatalf("redistest: Stop and Cont need /proc: %v", err)
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(rest, []byte("T"))
}
