package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

func TestSnapshot_ShowsWhoHoldsAndWhoWaitsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := plain(t, guard.WithName("stock"))
		if s := b.Snapshot(true); len(s) != 0 {
			t.Errorf("an idle guard: %+v", s)
		}
		l := must(b.Acquire(t.Context(), "k"))
		began := time.Now()
		waited := make(chan error, 2)
		for range 2 {
			go func() { waited <- b.With(guard.WithName("waits")).Do(t.Context(), "k", nop) }()
		}
		go func() { waited <- b.other.Do(t.Context(), "k", nop) }()
		time.Sleep(time.Second)

		s := b.Snapshot(false)
		if len(s) != 1 || s[0].Key != "k" || len(s[0].Holds) != 1 || s[0].Waiting != 2 || s[0].Blocker.PID != 0 {
			t.Fatalf("%+v", s)
		}
		if h := s[0].Holds[0]; h.Name != "stock" || !h.Since.Equal(began) || h.MaxHold != time.Minute || h.Err != nil ||
			h.Owner != must(b.Inspect(t.Context(), "k")).Owner {
			t.Errorf("%+v", h)
		}
		if w := s[0].Waits[0]; w.Name != "waits" || !w.Since.Equal(began) || w.Until.Sub(w.Since) != 3*time.Second {
			t.Errorf("%+v", w)
		}
		s = b.other.Snapshot(false)
		if len(s) != 1 || len(s[0].Holds) != 0 || s[0].Waiting != 1 || s[0].Blocker.Name != "stock" ||
			s[0].BlockedFor <= 0 {
			t.Errorf("from the other process: %+v", s)
		}
		wantErr(t, l.Release(t.Context()))
		for range 3 {
			wantErr(t, <-waited)
		}
		synctest.Wait()
		if s := b.Snapshot(true); len(s) != 0 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

func hangsHere(end chan struct{}) { <-end }

func TestSnapshot_FindsTheStackOfALongHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := plain(t)
		end, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- b.Do(t.Context(), "k", func(context.Context) error { hangsHere(end); return nil })
		}()
		go func() { done <- b.Do(t.Context(), "young", func(context.Context) error { <-end; return nil }) }()
		time.Sleep(31 * time.Second)
		for _, s := range b.Snapshot(true) {
			if h := s.Holds[0]; !strings.Contains(h.Stack, "hangsHere") {
				if s.Key == "k" {
					t.Errorf("the stack of a long hold is %q", h.Stack)
				}
			} else if s.Key != "k" {
				t.Error("the stack of another hold")
			}
		}
		time.Sleep(30 * time.Second) // both past MaxHold
		synctest.Wait()
		for _, s := range b.Snapshot(true) {
			if h := s.Holds[0]; !errors.Is(h.Err, guard.ErrMaxHold) || h.Stack == "" {
				t.Errorf("%s: a function that runs on: %+v", s.Key, h)
			}
		}
		for _, s := range b.Snapshot(false) {
			if s.Holds[0].Stack != "" {
				t.Error("a stack that nobody asked for")
			}
		}
		close(end)
		for range 2 {
			wantErr(t, <-done, guard.ErrMaxHold)
		}
		synctest.Wait()
		if s := b.Snapshot(true); len(s) != 0 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

// Each key of a DoAll shows the one function that runs under all of them.
func TestSnapshot_FindsTheStackOfALongDoAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := plain(t)
		end, done := make(chan struct{}), make(chan error, 2)
		hangs := func(context.Context) error { hangsHere(end); return nil }
		for _, keys := range [][]string{{"k1", "k2"}, {"alone"}} {
			go func() { done <- b.DoAll(t.Context(), keys, hangs) }()
		}
		time.Sleep(31 * time.Second)
		stacks := map[string]string{}
		for _, s := range b.Snapshot(true) {
			if stacks[s.Key] = s.Holds[0].Stack; !strings.Contains(stacks[s.Key], "hangsHere") {
				t.Errorf("%s: the stack of a long hold is %q", s.Key, stacks[s.Key])
			}
		}
		if len(stacks) != 3 || stacks["k1"] != stacks["k2"] || stacks["k1"] == stacks["alone"] {
			t.Errorf("want one stack for k1 and k2, and another one for alone: %q", stacks)
		}
		close(end)
		for range 2 {
			wantErr(t, <-done)
		}
	})
}
