package ctl

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// What a call under WithAtMostOnce left, that died or failed, is no result.
func TestTheMarkOfAnInterruptedCallIsCalledThat(t *testing.T) {
	s := redistest.Start(t)
	g := instance(t, redistest.Client(t, s.Addr), guard.WithAtMostOnce())
	pay := func() error {
		o := guard.OnceOptions{TTL: time.Hour, Fingerprint: []byte("0123456789abcdef")}
		_, err := g.OnceBytes(t.Context(), "pay:8", o,
			func(context.Context) ([]byte, error) { return nil, errors.New("no answer of the bank") })
		return err
	}
	_ = pay()
	text := mustRun(t, s, "show", "pay:8")
	if lines(text, `^interrupted +a call .* left no result, known for (1h0m0s|59m)`) != 1 || strings.Contains(text, "bytes") {
		t.Error(text)
	}
	if out := mustRun(t, s, "show", "--json", "pay:8"); !strings.Contains(out, `"interrupted":true`) {
		t.Error(out)
	}
	out, err := run(t, s, "no\n", "forget", "pay:8")
	if err == nil || !strings.Contains(out, "may the function run again?") ||
		strings.Contains(out, "Delete the result?") {
		t.Error(out, err)
	}
	if err := pay(); !errors.Is(err, guard.ErrInterrupted) {
		t.Errorf("got %v, want ErrInterrupted", err)
	}
	if out := mustRun(t, s, "forget", "--yes", "pay:8"); !strings.HasSuffix(out, "deleted\n") {
		t.Error(out)
	}
	if err := pay(); errors.Is(err, guard.ErrInterrupted) {
		t.Errorf("got %v after forget", err)
	}
}

func TestAResultIsSeenAndForgottenOnRequestOnly(t *testing.T) {
	s := redistest.Start(t)
	g := instance(t, redistest.Client(t, s.Addr))
	runs := 0
	charge := func() {
		t.Helper()
		_, err := guard.Once(t.Context(), g, "pay:7", time.Hour, func(context.Context) (string, error) {
			runs++
			return "receipt", nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t, s, "", "forget", "--yes", "pay:7")
	if err == nil || !strings.Contains(err.Error(), "no result") {
		t.Error("a key without a result:", out, err)
	}
	if text := mustRun(t, s, "show", "pay:7"); strings.Contains(text, "result") {
		t.Error(text)
	}
	charge()
	var state guard.KeyState
	decode(t, mustRun(t, s, "show", "--json", "pay:7"), &state)
	if n := state.Record.Size; n < len("receipt") || n > 64 || state.Record.Remaining <= 0 || state.Held {
		t.Errorf("%+v", state)
	}
	if text := mustRun(t, s, "show", "pay:7"); lines(text, `^result +\d+ bytes, kept for (1h0m0s|59m)`) != 1 {
		t.Error(text)
	}
	out, err = run(t, s, "no\n", "forget", "pay:7")
	if err == nil || !strings.Contains(out, "runs its function again") {
		t.Error("it was not asked:", out, err)
	}
	charge()
	if runs != 1 {
		t.Errorf("fn ran %d times before the result was forgotten", runs)
	}
	if out, err := run(t, s, "yes\n", "forget", "pay:7"); err != nil || !strings.HasSuffix(out, "deleted\n") {
		t.Error(out, err)
	}
	charge()
	out = mustRun(t, s, "forget", "--yes", "--json", "pay:7")
	if runs != 2 || !strings.Contains(out, `"forgotten":true`) {
		t.Errorf("fn ran %d times; %s", runs, out)
	}
}
