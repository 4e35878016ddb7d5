package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// program is the flash sale with its page, as a process.
type program struct {
	url     string      // with the token
	reports chan report // of each run, as -json prints it
	stop    func()      // ends it with Ctrl-C, and waits
}

// report is what the command line says about a run.
type report map[string]any

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "flashsale")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "flashsale")
	cmd := exec.Command("go", "build", "-o", binary, "./flashsale")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	return binary, cmd.Run()
})

var pageURL = regexp.MustCompile(`http://\S+`)

// startProgram ends with t.
func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, append([]string{"-web", "-json"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{reports: make(chan report, 100)}
	var reading sync.WaitGroup
	lines := bufio.NewReader(stderr)
	first, _ := lines.ReadString('\n')
	p.url = pageURL.FindString(first)
	reading.Go(func() { _, _ = io.Copy(io.Discard, lines) })
	reading.Go(func() {
		for d := json.NewDecoder(stdout); ; {
			var r report
			if d.Decode(&r) != nil {
				return
			}
			p.reports <- r
		}
	})
	p.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		reading.Wait()
		_ = cmd.Wait()
	})
	t.Cleanup(p.stop)
	if p.url == "" {
		t.Fatalf("no URL in %q", first)
	}
	return p
}

// nextReport waits for the report of the run that is on.
func (p *program) nextReport(t *testing.T) report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	select {
	case r := <-p.reports:
		return r
	case <-ctx.Done():
		t.Fatal("no report")
		return nil
	}
}
