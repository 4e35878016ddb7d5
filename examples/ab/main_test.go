package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program starts a server of its own, and nothing of it stays.
func TestTheProgramLeavesNothingWhereItRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	if err := run(t.Context(), io.Discard, "", load{requests: 2, atOnce: 1}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", os.TempDir()} { //nolint:usetesting // programs leave things there
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("%s has %v, %v", dir, left, err)
		}
	}
}

func TestEveryLockKeepsTheNumbersApartAndGuardAsksLeast(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	for instances := 1; instances <= 2; instances++ {
		commands := map[string]int{}
		for _, kind := range kinds {
			load := load{requests: 300, atOnce: 30}
			r, err := measure(t.Context(), rdb, server.Addr, instances, kind, load)
			if err != nil {
				t.Fatalf("%s: %v", kind.name, err)
			}
			right := len(r.numbers) == load.requests
			if right != (kind.name != "none") || len(r.took) != load.requests {
				t.Errorf("%s: %s of %d answers", kind.name, r.verdict(), len(r.took))
			}
			commands[kind.name] = r.commands
		}
		for _, other := range []string{"SETNX, spinning", "SETNX, sleep 10 ms"} {
			if commands["guard"] >= commands[other] {
				t.Errorf("%d instances: commands %v, want fewest with guard", instances, commands)
			}
		}
	}
}

func TestTheTableHasARowForEachLock(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, redistest.Start(t).Addr, load{20, 5}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if n := strings.Count(out.String(), kind.name+" "); n != 2 {
			t.Errorf("%d rows of %s in\n%s", n, kind.name, &out)
		}
	}
}

func TestADeadServerIsAnError(t *testing.T) {
	if err := run(t.Context(), new(bytes.Buffer), "127.0.0.1:1", load{1, 1}); err == nil {
		t.Error("no error")
	}
	if err := run(t.Context(), new(bytes.Buffer), "", load{0, 1}); err == nil {
		t.Error("no error for no requests")
	}
}
