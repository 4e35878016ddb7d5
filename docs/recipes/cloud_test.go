package recipes_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The table of ../servers.md: servers without a command, and what g.Check says.

var span = regexp.MustCompile("`([^`]+)`")

// reported is a row of the table.
type reported struct {
	commands []string
	finding  string // "" for none
	refuses  bool
}

func tableOfCommands(t *testing.T) (rows []reported) {
	t.Helper()
	for _, s := range page(t, "../servers.md").Sections {
		for _, table := range s.Tables {
			if table.Rows[0][0] != "The server refuses" {
				continue
			}
			for _, cells := range table.Rows[1:] {
				r := reported{refuses: strings.HasPrefix(cells[1], "refuses")}
				for _, m := range span.FindAllStringSubmatch(cells[0], -1) {
					r.commands = append(r.commands, m[1])
				}
				if m := span.FindStringSubmatch(cells[1]); m != nil {
					r.finding = m[1]
				}
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func TestCheckNamesWhatACloudsRedisLacks(t *testing.T) {
	rows, tried := tableOfCommands(t), 0
	for _, row := range rows {
		for _, command := range row.commands {
			tried++
			t.Run(command, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, "--rename-command", command, "")
				g, err := guard.New(redislocker.New(redistest.Client(t, server.Addr)))
				g = closeAtEnd(t, g, err)
				found, err := g.Findings(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				name, refuses := "", false
				for _, f := range found {
					name, refuses = f.Name, f.Severity == locker.Refuse
				}
				if len(found) > 1 || name != row.finding || refuses != row.refuses {
					t.Errorf("found %v, want %q, refuses %v", found, row.finding, row.refuses)
				}
				if !refuses {
					passesOn(t, g, server.Addr)
				}
			})
		}
	}
	if tried < 10 {
		t.Errorf("%d commands in the table", tried)
	}
}

// passesOn has a key pass from one process to another that waits.
func passesOn(t *testing.T, g *guard.Guard, addr string) {
	t.Helper()
	other, err := guard.New(redislocker.New(redistest.Client(t, addr)), guard.WithMaxWait(time.Minute))
	other = closeAtEnd(t, other, err)
	waited := make(chan error, 1)
	err = g.Do(t.Context(), "stock:4711", func(ctx context.Context) error {
		go func() {
			waited <- other.Do(t.Context(), "stock:4711", func(context.Context) error { return nil })
		}()
		for {
			state, err := g.Inspect(ctx, "stock:4711")
			if err != nil || len(state.Waiters) > 0 {
				return err
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
