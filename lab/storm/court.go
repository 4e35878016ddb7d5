//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
)

// court listens to what the workers do. A caller tells of a section before it
// begins and after it has ended, and waits for the answer each time.
type court struct {
	listener net.Listener
	work     sync.WaitGroup // the connections of callers

	mu      sync.Mutex // guards what follows, and is held while a message is judged
	inside  [keys]judge.Floor[*visit]
	token   [keys]uint64
	last    [keys]time.Time   // when a section began
	runs    map[int]int       // of functions for the result of a key
	results map[int]uint64    // that a caller got, by key
	stopped map[int]time.Time // workers, by pid, that are or were stopped, and when that ended or zero
	report  Report
}

// visit is a section that runs.
type visit struct {
	pid, limit int
	excused    bool // its process was stopped while it ran, or before
}

// AtMost implements [judge.Guest].
func (v *visit) AtMost() int { return v.limit }

func newCourt() (*court, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	j := &court{
		listener: l, stopped: map[int]time.Time{}, report: Report{faults: map[string]int{}},
		runs: map[int]int{}, results: map[int]uint64{},
	}
	for i := range j.last {
		j.last[i], j.inside[i].Excused = time.Now(), func(v *visit) bool { return v.excused }
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
func (j *court) hear(c net.Conn) {
	defer c.Close()
	var mine *visit
	var key int
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.leaves(key, mine)
	}()
	for in := bufio.NewScanner(c); in.Scan(); {
		var pid, k, limit int
		var token uint64
		var what string
		if _, err := fmt.Sscan(in.Text(), &what, &pid, &k, &limit, &token); err != nil {
			return
		}
		j.mu.Lock()
		switch what {
		case "in":
			key, mine = k, j.enters(pid, k, limit, token)
		case "out":
			j.leaves(key, mine)
		case "run":
			j.runsFor(k, limit)
		case "result":
			j.gets(k, token)
		}
		j.mu.Unlock()
		if _, err := fmt.Fprintln(c, "ok"); err != nil {
			return
		}
	}
}

// enters judges the beginning of a section. limit is how many of its kind may
// be inside. Only a section that must be alone has a token in the order of the
// begins. The caller has j.mu.
func (j *court) enters(pid, key, limit int, token uint64) *visit {
	now := time.Now()
	_, wasStopped := j.stopped[pid]
	if limit == 1 && token <= j.token[key] {
		if !wasStopped {
			j.violates("key %d: token %d after %d", key, token, j.token[key])
		}
		j.report.fenced++
		return nil // a store that compares tokens refuses it
	}
	v := &visit{pid: pid, limit: limit}
	v.excused = wasStopped && (limit > 1 || j.shared(key)) // no token tells that it is late
	if n, most := j.inside[key].Enter(v); n > most {
		j.violates("key %d: process %d began with limit %d, beside %s", key, pid, limit, j.beside(key, v))
	}
	j.report.gap = max(j.report.gap, now.Sub(j.last[key]))
	j.last[key], j.token[key] = now, max(token, j.token[key])
	j.report.sections++
	return v
}

// leaves notes that a section has ended. The caller has j.mu.
func (j *court) leaves(key int, v *visit) {
	j.inside[key].Leave(func(o *visit) bool { return o == v })
}

// runsFor judges that a function runs for the result of key. limit is 1 if it
// may run only once. The caller has j.mu.
func (j *court) runsFor(key, limit int) {
	j.report.runs++
	if j.runs[key]++; limit == 1 && j.runs[key] > 1 {
		j.violates("payment %d runs again", key)
	}
}

// gets judges the result that a caller got. The caller has j.mu.
func (j *court) gets(key int, result uint64) {
	j.report.results++
	if first, ok := j.results[key]; ok && first != result {
		j.violates("payment %d has two results", key)
	}
	j.results[key] = result
}

// shared reports whether a section with a limit above 1 is inside.
func (j *court) shared(key int) bool {
	for _, v := range j.inside[key].In {
		if v.limit > 1 {
			return true
		}
	}
	return false
}

// beside describes what is inside beside v.
func (j *court) beside(key int, v *visit) string {
	var all []string
	for _, o := range j.inside[key].In {
		if o != v {
			all = append(all, fmt.Sprintf("process %d with limit %d", o.pid, o.limit))
		}
	}
	return strings.Join(all, ", ")
}

func (j *court) violates(format string, args ...any) {
	j.report.violations = append(j.report.violations, fmt.Sprintf(format, args...))
}

// stops notes that a process is about to be stopped. Its earlier work may
// run beside others.
func (j *court) stops(pid int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopped[pid] = time.Now()
	for _, inside := range j.inside {
		for _, v := range inside.In {
			v.excused = v.excused || v.pid == pid
		}
	}
}

func (j *court) fault(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.faults[name]++
}

// close ends the court when all callers have gone, and returns what it has
// seen.
func (j *court) close() Report {
	_ = j.listener.Close()
	j.work.Wait()
	return j.report
}
