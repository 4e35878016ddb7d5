//go:build unix

package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testsize"
)

// payments is how many are made. Each that hangs takes a TTL.
func payments() int { return testsize.Pick(12, 8) }

// hangs reports whether the function for the i-th payment never returns.
func hangs(i int) bool { return i%4 == 3 }

// payerProcess makes all payments, each at most once.
func payerProcess(t *testing.T, g *guard.Guard) {
	t.Helper()
	g = g.With(guard.WithAtMostOnce(), guard.WithMaxWait(time.Minute))
	for i := range payments() {
		_, err := guard.Once(t.Context(), g, payment(i), time.Hour, func(context.Context) (int, error) {
			say("begins %d", i)
			if hangs(i) {
				say("hangs %d", i)
				select {}
			}
			return i, nil
		})
		if err != nil && !errors.Is(err, guard.ErrInterrupted) {
			say("%v", err)
		}
	}
	say("done")
}

func payment(i int) string { return fmt.Sprint("payment", i) }

// Two processes make the same payments. Each process that hangs in one is killed
// with SIGKILL, and replaced.
func TestOnce_NoPaymentIsMadeTwiceThoughProcessesAreKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Start(t)
	type event struct {
		by   *process
		said string
	}
	events := make(chan event)
	over := make(chan struct{})
	defer close(over)
	start := func() {
		p := spawn(t, "payer", s.Addr)
		go func() { // ends with the process, or with the test
			for line := range p.lines {
				_, said := parse(line)
				select {
				case events <- event{p, said}:
				case <-over:
					return
				}
			}
		}()
	}
	start()
	start()
	begins, kills := make(map[string]int), 0
	for done := 0; done < 2; {
		var e event
		select {
		case e = <-events:
		case <-time.After(time.Minute):
			t.Fatalf("%d of 2 processes have made their payments", done)
		}
		switch {
		case e.said == "done":
			done++
		case strings.HasPrefix(e.said, "begins "):
			begins[e.said]++
		case strings.HasPrefix(e.said, "hangs "):
			if err := e.by.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			kills++
			start()
		default:
			t.Log(e.said) // such as an outage on a busy machine
		}
	}
	for i := range payments() {
		if n := begins[fmt.Sprint("begins ", i)]; n > 1 {
			t.Errorf("the function of payment %d began %d times", i, n)
		}
	}
	if kills == 0 {
		t.Error("no process was killed")
	}
	rdb := redistest.Client(t, s.Addr)
	for _, name := range rdb.Keys(t.Context(), "*:kept").Val() {
		if ttl := rdb.PTTL(t.Context(), name).Val(); ttl == -1 {
			t.Errorf("%s has no TTL", name)
		}
	}
}
