package main

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"time"
)

// judge listens to what the workers do. A caller tells of a section before it
// begins and after it has ended, and waits for the answer each time.
type judge struct {
	listener net.Listener
	work     sync.WaitGroup // the connections of callers

	mu      sync.Mutex // guards what follows, and is held while a message is judged
	inside  [keys]*visit
	token   [keys]uint64
	last    [keys]time.Time   // when a section began
	stopped map[int]time.Time // workers, by pid, that are or were stopped, and when that ended or zero
	report  report
}

// visit is a section that runs.
type visit struct {
	pid     int
	excused bool // its process was stopped while it ran
}

func newJudge() (*judge, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	j := &judge{listener: l, stopped: map[int]time.Time{}, report: report{faults: map[string]int{}}}
	for i := range j.last {
		j.last[i] = time.Now()
	}
	j.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			j.work.Go(func() { j.hear(c) })
		}
	})
	return j, nil
}

// hear serves one caller until its process ends.
func (j *judge) hear(c net.Conn) {
	defer c.Close()
	var mine *visit
	var key int
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if mine != nil && j.inside[key] == mine {
			j.inside[key] = nil
		}
	}()
	for in := bufio.NewScanner(c); in.Scan(); {
		var pid, k int
		var token uint64
		var what string
		if _, err := fmt.Sscan(in.Text(), &what, &pid, &k, &token); err != nil {
			return
		}
		j.mu.Lock()
		if what == "in" {
			key, mine = k, j.enters(pid, k, token)
		} else if mine != nil && j.inside[key] == mine {
			j.inside[key] = nil
		}
		j.mu.Unlock()
		if _, err := fmt.Fprintln(c, "ok"); err != nil {
			return
		}
	}
}

// enters judges the beginning of a section. The caller has j.mu.
func (j *judge) enters(pid, key int, token uint64) *visit {
	now := time.Now()
	_, wasStopped := j.stopped[pid]
	if token <= j.token[key] {
		if !wasStopped {
			j.violates("key %d: token %d after %d", key, token, j.token[key])
		}
		j.report.fenced++
		return nil // a store that compares tokens refuses it
	}
	if other := j.inside[key]; other != nil && !other.excused {
		j.violates("key %d: process %d began beside process %d", key, pid, other.pid)
	}
	j.report.gap = max(j.report.gap, now.Sub(j.last[key]))
	j.last[key], j.token[key] = now, token
	j.report.sections++
	v := &visit{pid: pid}
	j.inside[key] = v
	return v
}

func (j *judge) violates(format string, args ...any) {
	j.report.violations = append(j.report.violations, fmt.Sprintf(format, args...))
}

// stops notes that a process is about to be stopped. Its earlier work may
// run beside others.
func (j *judge) stops(pid int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopped[pid] = time.Now()
	for _, v := range j.inside {
		if v != nil && v.pid == pid {
			v.excused = true
		}
	}
}

func (j *judge) fault(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.faults[name]++
}

// close ends the judge when all callers have gone, and returns what it has
// seen.
func (j *judge) close() report {
	_ = j.listener.Close()
	j.work.Wait()
	return j.report
}
