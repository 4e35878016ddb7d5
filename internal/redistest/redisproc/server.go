package redisproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/testproc"
)

// Server is a process on a loopback port. Its methods are safe for concurrent
// use.
type Server struct {
	Addr string
	Dir  string // its working directory, with its log

	binary string
	args   []string
	env    []string
	clock  string // the file with its clock's shift; "" if there is none

	mu   sync.Mutex // guards proc; never held across I/O
	proc *process
}

// process is one life of a server.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed by the goroutine that waits for the process
}

// Kill ends the server at once, as kill -9 does, and waits until it has ended.
// It may be called again.
func (s *Server) Kill() {
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// Restart starts the server again with the same directory and port, and waits
// until it answers. If the server still runs it is killed first. Data that it
// did not write to its disk is lost.
func (s *Server) Restart() error {
	s.Kill()
	p, err := s.launch()
	if err != nil {
		return fmt.Errorf("redisproc: %w", err)
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	err = await("redis-server answers", func() bool { return p.ended() || s.answers() })
	if err == nil && !p.ended() {
		return nil
	}
	s.Kill()
	log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	return errors.Join(fmt.Errorf("redisproc: %s %v does not answer; its log:\n%s", s.binary, s.args, log), err)
}

func (s *Server) launch() (*process, error) {
	// The file of a sentinel must precede the options.
	cmd := exec.Command(s.binary, append(s.args, "--bind", "127.0.0.1", "--dir", s.Dir, "--logfile", "log")...)
	cmd.Env = append(os.Environ(), s.env...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, gone: make(chan struct{})}
	go func() { // ends with the process
		_ = cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// do sends one command and waits for at most a second or two.
func (s *Server) do(args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.Do(ctx, args...)
}

// answers reports whether the server answers a PING, even if it only asks for a
// password.
func (s *Server) answers() bool {
	err := s.do("ping").Err()
	return err == nil || redis.HasErrorPrefix(err, "NOAUTH")
}

// Do sends one command to the server over a new connection.
func (s *Server) Do(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	var d net.Dialer
	// by itself: a client that cannot leaves goroutines that go on trying
	conn, err := d.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		cmd.SetErr(err)
		return cmd
	}
	rdb := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 1,
	})
	defer func() { _ = rdb.Close() }()
	_ = rdb.Process(ctx, cmd)
	return cmd
}

// Stop freezes the server, like a machine that hangs. It returns when the
// process has stopped.
func (s *Server) Stop() error { return s.signal(testproc.SigStop, true) }

// Cont lets a frozen server go on. It handles the requests that its sockets
// have received meanwhile.
func (s *Server) Cont() error { return s.signal(testproc.SigCont, false) }

// signal sends sig. It waits until the kernel reports that the process is
// stopped, or that it runs again.
func (s *Server) signal(sig os.Signal, stopped bool) error {
	s.mu.Lock()
	process := s.proc.cmd.Process
	s.mu.Unlock()
	if err := process.Signal(sig); err != nil {
		return fmt.Errorf("redisproc: %w", err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(process.Pid) + "/stat")
		if err != nil {
			return fmt.Errorf("redisproc: Stop and Cont need /proc: %w", err)
		}
		_, rest, _ := bytes.Cut(stat, []byte(") ")) // the state follows the command's name in parentheses
		switch {
		case bytes.HasPrefix(rest, []byte("T")) == stopped:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("redisproc: redis-server did not obey %v", sig)
		}
	}
}
