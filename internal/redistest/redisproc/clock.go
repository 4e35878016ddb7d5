package redisproc

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

//go:embed testdata/clk.c
var shimSource []byte

const shimPage = 4096 // the number of bytes that the shim maps of a clock's file

// ErrNoClock is returned if a server's wall clock cannot be shifted. A shift
// needs Linux and a C compiler.
var ErrNoClock = errors.New("redisproc: shifting a server's clock needs Linux and gcc, which cannot be had here")

// ShiftClock sets the server's wall clock ahead of the true one by d, or behind
// it if d < 0. The shift survives a restart. ShiftClock returns [ErrNoClock] if
// the server was not started in a lab with Clocks.
func (s *Server) ShiftClock(d time.Duration) error {
	if s.clock == "" {
		return ErrNoClock
	}
	file, err := os.OpenFile(s.clock, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("redisproc: %w", err)
	}
	var shift [8]byte
	binary.NativeEndian.PutUint64(shift[:], uint64(d.Microseconds()))
	_, err = file.WriteAt(shift[:], 0)
	return errors.Join(err, file.Close())
}

// addClock gives s a wall clock of its own, before it is launched.
func (l *Lab) addClock(s *Server) error {
	l.mu.Lock()
	if l.shim == nil {
		l.shim = sync.OnceValues(func() (string, error) { return compileShim(l.Dir) })
	}
	shim := l.shim
	l.mu.Unlock()
	library, err := shim()
	if err != nil {
		return err
	}
	s.clock = filepath.Join(s.Dir, "clock")
	if err := os.WriteFile(s.clock, make([]byte, shimPage), 0o600); err != nil {
		return fmt.Errorf("redisproc: %w", err)
	}
	s.env = append(s.env, "LD_PRELOAD="+library, "CLK="+s.clock)
	return nil
}

func compileShim(dir string) (string, error) {
	cc, err := exec.LookPath("gcc")
	if runtime.GOOS != "linux" || err != nil {
		return "", ErrNoClock
	}
	source, library := filepath.Join(dir, "clk.c"), filepath.Join(dir, "clk.so")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		return "", fmt.Errorf("redisproc: %w", err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %w: %s", ErrNoClock, err, out)
	}
	return library, nil
}
