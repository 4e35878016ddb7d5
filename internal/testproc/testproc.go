// Package testproc runs the servers of tests as child processes, so that they
// can be killed and stopped.
package testproc

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Process is a child process, or none before Run and after Kill. Its methods
// are for one goroutine at a time.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer // its end ends a program of Serve
}

// Run starts cmd as the process. The caller kills it.
func (p *Process) Run(cmd *exec.Cmd) error {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.stdin = cmd, stdin
	return nil
}

// Serve starts a program of [Build] as the process, and waits for the line that
// it prints when it serves. config is its argument. The caller kills it, even
// after an error.
func (p *Process) Serve(ctx context.Context, program, config string) error {
	cmd := exec.Command(program, config)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.Run(cmd); err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() { // ends when the server prints a line or ends
		_, err := bufio.NewReader(out).ReadString('\n')
		ready <- err
	}()
	select {
	case err := <-ready:
		if err != nil {
			return fmt.Errorf("a server does not start: %w; its settings are %s", err, config)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Main runs a program of [Build]. start starts its server by the settings that
// [Process.Serve] passes as JSON, and returns when it serves. stop ends it.
func Main[T any](start func(settings T) (stop func(), err error)) {
	var settings T
	err := json.Unmarshal([]byte(os.Args[1]), &settings)
	stop := func() {}
	if err == nil {
		stop, err = start(settings)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:revive // it is the whole main function of a program
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
}

// Kill ends the process by SIGKILL and waits for its end. It may be called
// again.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// Pause stops the process by SIGSTOP. Its connections stay.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(SigStop) }

// Resume ends a Pause.
func (p *Process) Resume() { _ = p.cmd.Process.Signal(SigCont) }

// Build builds the command in the folder server of a package, and returns its
// path in dir. It builds in the folder of the package's module, because the
// tests of others may not require what the server does. The command ends when
// its standard input does, so it does not outlive the test that started it.
func Build(ctx context.Context, pkg, dir string) (path string, err error) {
	folder, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", pkg, err)
	}
	path = filepath.Join(dir, "server")
	cmd := exec.CommandContext(ctx, "go", "build", "-race=false", "-o", path, "./server")
	cmd.Dir = strings.TrimSpace(string(folder))
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server of %s: %w\n%s", pkg, err, text)
	}
	return path, nil
}

// FreeAddrs returns n loopback addresses on which nobody listened a moment ago.
func FreeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
