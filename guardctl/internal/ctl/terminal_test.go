package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
)

// evil controls a terminal in each way: ESC, raw C1 bytes, C1 in UTF-8, DEL,
// BEL, CR, an override of the direction of text, and half a character.
const evil = "a\x1b]0;owned\x07\x9b31m\u009b31m\x7f\r\u202e\xe2\x82"

// wantTame wants text without anything that controls a terminal.
func wantTame(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && !strconv.IsPrint(r) {
			t.Errorf("%s: %U reaches the terminal: %q", what, r, text)
			return
		}
	}
	if !utf8.ValidString(text) {
		t.Errorf("%s: bytes that are not UTF-8 reach the terminal: %q", what, text)
	}
}

func TestNoKeyOrNameControlsTheTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	g := instance(t, rdb, guard.WithName(evil), guard.WithMaxHold(0))
	hung := hang(t, g, evil)
	for key, value := range map[string]any{"guard:{" + evil + "1}": evil, "guard:{" + evil + "2}": "x"} {
		if err := rdb.Set(t.Context(), key, value, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.RPush(t.Context(), "guard:{"+evil+"3}", "x").Err(); err != nil { // an error about one key
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ls"},
		{"ls", "--json"},
		{"show", evil},
		{"show", "--json", evil},
		{"show", evil + "3"},
		{"show", evil + "\n"},
		{"release", evil},
		{"release", "--yes", "--owner", evil, evil},
		{"forget", evil},
		{evil},
		{"ls", "--" + evil},
		{"--url", evil, "ls"},
		{"check", "--accept", evil},
		{"--prefix", evil, "ls"},
		{"release", "--yes", "--json", evil},
	} {
		var out, errs bytes.Buffer
		all := append([]string{"guardctl", "--url", "redis://" + s.Addr}, args...)
		_ = Run(t.Context(), all, strings.NewReader("no\n"), &out, &errs)
		wantTame(t, fmt.Sprintf("%q, output", args), out.String())
		wantTame(t, fmt.Sprintf("%q, errors", args), errs.String())
		if out.Len()+errs.Len() == 0 {
			t.Errorf("%q says nothing", args)
		}
	}
	if err := <-hung; !errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("the holder: %v, want ErrLeaseLost", err)
	}
}

func FuzzNothingControlsTheTerminal(f *testing.F) {
	for _, s := range []string{"", "stock:42", "заказ:1", evil, "\u2028\U000e0001\ufffd", "a\tb\nc", `"\`} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, key, name string) {
		h := guard.Holder{Name: name, Host: key, Instance: name, Traceparent: key}
		s := guard.KeyState{
			Key: key, Held: true, Owner: name, Holder: h, Waiting: 1, Waiters: []guard.Waiter{{Owner: key, Holder: h}},
		}
		shared := s
		shared.Limit, shared.Owners = 2, []guard.Waiter{{Owner: name, Holder: h}, {Owner: key, Holder: h}}
		lines := func(write func(out io.Writer)) int {
			var b bytes.Buffer
			write(terminal{&b})
			wantTame(t, "text", b.String())
			return strings.Count(b.String(), "\n")
		}
		if n := lines(func(out io.Writer) { writeTable(out, []guard.KeyState{s}, time.Now()) }); n != 2 {
			t.Errorf("a table of one key has %d lines", n)
		}
		lines(func(out io.Writer) { writeState(out, s, time.Now()) })
		lines(func(out io.Writer) { writeState(out, shared, time.Now()) })
		lines(func(out io.Writer) { fmt.Fprintln(out, "guardctl:", fmt.Errorf("%s: %w", key, errors.New(name))) })

		var plain, shown bytes.Buffer
		if err := errors.Join(writeJSON(&plain, s), writeJSON(terminal{&shown}, s)); err != nil {
			t.Fatal(err)
		}
		wantTame(t, "JSON", shown.String())
		var a, b any
		if err := errors.Join(json.Unmarshal(plain.Bytes(), &a), json.Unmarshal(shown.Bytes(), &b)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("the JSON means something else:\n%v\n%v", a, b)
		}
	})
}

func TestAWriteTellsItsOwnLength(t *testing.T) {
	for _, text := range []string{"", "plain\n", evil} {
		if n, err := fmt.Fprint(terminal{io.Discard}, text); n != len(text) || err != nil {
			t.Errorf("%q: wrote %d, %v", text, n, err)
		}
	}
	_, err := terminal{full{}}.Write([]byte("x"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the writer's error", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, context.Canceled }
