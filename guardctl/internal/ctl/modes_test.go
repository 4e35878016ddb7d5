package ctl

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
)

// lines returns the lines of text that match pattern.
func lines(text, pattern string) int {
	return len(regexp.MustCompile("(?m)"+pattern).FindAllString(text, -1))
}

func TestReadersOfAKeyAreSeenAndReleasedOneByOne(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	forever := guard.WithMaxHold(0)
	ended := map[string]<-chan error{}
	for _, name := range []string{"page", "feed", "export"} {
		g := instance(t, rdb, guard.WithName(name), guard.WithShared(), forever)
		ended[name] = hang(t, g, "doc:7")
	}
	writer := instance(t, rdb, guard.WithName("edit"), guard.WithMaxWait(time.Hour))
	wrote := make(chan error, 1)
	go func() { wrote <- writer.Do(t.Context(), "doc:7", func(context.Context) error { return nil }) }()

	var state guard.KeyState
	testguard.Eventually(t, "three readers and a writer", func() bool {
		state = guard.KeyState{}
		decode(t, mustRun(t, s, "show", "--json", "doc:7"), &state)
		return state.Waiting == 1 && len(state.Owners) == 3
	})
	if !state.Held || state.Limit != locker.NoLimit || state.Owner != "" || state.Remaining <= 0 {
		t.Errorf("%+v", state)
	}
	text := mustRun(t, s, "show", "doc:7")
	if lines(text, `^held by +shared by 3$`) != 1 || lines(text, `^waiting +1$`) != 1 ||
		lines(text, `^  1\. .* edit `) != 1 {
		t.Error(text)
	}
	here := ":" + strconv.Itoa(os.Getpid()) + " "
	for _, o := range state.Owners {
		if lines(text, `^  \d\. .*`+here+` *`+o.Holder.Name+` .* owner `+regexp.QuoteMeta(o.Owner)+`$`) != 1 {
			t.Errorf("owner %s of %s is missing in\n%s", o.Owner, o.Holder.Name, text)
		}
	}
	text = mustRun(t, s, "ls")
	if lines(text, `^doc:7 +- +shared by 3 .* 1$`) != 1 || lines(text, `^ +(page|feed|export) .*`+here) != 3 ||
		!strings.HasSuffix(text, "1 held, 1 waiting\n") {
		t.Error(text)
	}

	if out, err := run(t, s, "", "release", "--yes", "doc:7"); err == nil || !strings.Contains(err.Error(), "--owner") {
		t.Error("a key of three was released without a choice:", out, err)
	}
	if _, err := run(t, s, "", "release", "--yes", "--owner", strings.Repeat("A", 22), "doc:7"); err == nil {
		t.Error("a share of nobody was released")
	}
	for i, o := range state.Owners {
		out := mustRun(t, s, "release", "--yes", "--owner", o.Owner, "doc:7")
		if !strings.Contains(out, "released 1 of "+strconv.Itoa(3-i)+", 1 waited") {
			t.Error(out)
		}
		if err := <-ended[o.Holder.Name]; !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("the reader %s: %v", o.Holder.Name, err)
		}
		delete(ended, o.Holder.Name)
		for name, others := range ended {
			select {
			case err := <-others:
				t.Errorf("%s ended with the share of %s: %v", name, o.Holder.Name, err)
			default:
			}
		}
	}
	if err := <-wrote; err != nil {
		t.Error("the writer, when all shares were released:", err)
	}
}

func TestPermitsOfAKeyAreCounted(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	for range 2 {
		hang(t, instance(t, rdb, guard.WithName("export"), guard.WithPermits(4), guard.WithMaxHold(0)), "exports")
	}
	if text := mustRun(t, s, "show", "exports"); lines(text, `^held by +2 of 4 permits$`) != 1 ||
		lines(text, `^  [12]\. .* export `) != 2 {
		t.Error(text)
	}
	if text := mustRun(t, s, "ls"); lines(text, `^exports +- +2 of 4 permits `) != 1 || lines(text, `^ +export `) != 2 {
		t.Error(text)
	}
	json := mustRun(t, s, "ls", "--json")
	for _, want := range []string{`"limit":4`, `"owners":[{"owner":"`, `"holder":{"instance":"`} {
		if !strings.Contains(json, want) {
			t.Errorf("%s is missing in %s", want, json)
		}
	}
	var released struct {
		Released bool
		Owner    string
		State    guard.KeyState
	}
	var state guard.KeyState
	decode(t, json, &state)
	owner := state.Owners[1].Owner
	decode(t, mustRun(t, s, "release", "--yes", "--json", "--owner", owner, "exports"), &released)
	if !released.Released || released.Owner != owner || len(released.State.Owners) != 2 {
		t.Errorf("%+v", released)
	}
	if text := mustRun(t, s, "show", "exports"); lines(text, `^held by +1 of 4 permits$`) != 1 {
		t.Error(text)
	}
}

func TestATableNamesSoManyOwners(t *testing.T) {
	key := guard.KeyState{Key: "doc:7", Held: true, Limit: locker.NoLimit, Owners: make([]guard.Waiter, listedOwners+5)}
	var b strings.Builder
	writeTable(&b, []guard.KeyState{key}, time.Now())
	if text := b.String(); lines(text, `\n`) != 1+1+listedOwners+1 || !strings.Contains(text, "and 5 more") {
		t.Error(text)
	}
}
