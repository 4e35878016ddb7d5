//go:build unix

package sqltest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kill ends all processes of the server by SIGKILL. Its data stays.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	<-s.gone
}

// Restart starts a server again that Kill has ended, with its data and on its
// address. It returns when the server takes connections.
func (s *Server) Restart() (err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = s.serveOnce(); err == nil { // PostgreSQL first waits until its old processes have gone
			return nil
		}
		s.stop()
	}
	return err
}

// Pause stops all processes of the server until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// signal sends sig to the server's process, and then to its children where the
// system tells which those are.
func (s *Server) signal(sig syscall.Signal) {
	pid := s.cmd.Process.Pid
	children, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(pid), "children"))
	_ = s.cmd.Process.Signal(sig)
	for field := range strings.FieldsSeq(string(children)) {
		if child, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(child, sig)
		}
	}
}
