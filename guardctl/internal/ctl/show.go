package ctl

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
)

const (
	shownWaiters = 100
	shownOwners  = 100
)

func (c *console) show() *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "tell who holds a key, since when and under which owner id, and who waits for it",
		ArgsUsage: "KEY",
		Description: `Times are by the clocks of the processes that they are about. A process that waits is shown once, however many of
its calls wait. A key that nobody has is "held by nobody", with exit status 0 like any other answer; in scripts, look at
"held" of --json.

A key that several leases share is held by "shared by 3" or "2 of 4 permits", with a line for each of them: its process, its
guard, its age, and its owner id, which release --owner takes. All readers of a process have one share. In --json "limit" is
4, or 999999 for shared leases, and "owners" has them.

A key with a result of guard.Once has a line with its size and how long it is kept. In --json it is "record", with "size" and
"remaining_ns". The result itself is not shown. "interrupted", also in "record", is a call under guard.WithAtMostOnce that began and left no
result: its process died, or it failed. Nobody runs the function again until guardctl forget.

Redis does not know everything. Calls that queue in the holder's own process are not counted: "waiting 0" may hide them. A key
that guard.WithMinHold keeps looks held after its function has returned. "may be idle" says that guard.WithLinger may keep
the key while no function runs; "lingers" of --json says the same. All three are on the page of that process, see package
debug; it is usually mounted at /debug/guard. Cost: one small read.`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := args(cmd, 1); err != nil {
				return err
			}
			return withGuard(ctx, cmd, func(g *guard.Guard) error {
				ctx, cancel := limited(ctx, cmd)
				defer cancel()
				s, err := g.Inspect(ctx, cmd.Args().First())
				if err != nil {
					return err
				}
				if cmd.Bool("json") {
					return writeJSON(c.out, s)
				}
				writeState(c.out, s, time.Now())
				return nil
			})
		},
	}
}

// writeState writes the state of one key.
func writeState(out io.Writer, s guard.KeyState, now time.Time) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "key\t%s\n", printable(s.Key))
	fmt.Fprintf(w, "hash in logs\t%s\n", guard.KeyHash(s.Key))
	fmt.Fprintf(w, "held by\t%s\n", where(s))
	switch {
	case s.Limit > 0:
		fmt.Fprintf(w, "TTL left\t%s, of the last of them\n", left(s))
		writeOwners(w, s.Owners, now)
	case s.Held:
		fmt.Fprintf(w, "guard\t%s\n", holderName(s.Holder))
		fmt.Fprintf(w, "since\t%s (%s)\n", moment(s.Holder.Since), age(s.Holder.Since, now))
		fmt.Fprintf(w, "TTL left\t%s\n", left(s))
		fmt.Fprintf(w, "owner\t%s\n", printable(s.Owner))
		fmt.Fprintf(w, "instance\t%s\n", printable(s.Holder.Instance))
		if s.Holder.Traceparent != "" {
			fmt.Fprintf(w, "traceparent\t%s\n", printable(s.Holder.Traceparent))
		}
	}
	switch {
	case s.Record.Interrupted:
		fmt.Fprintf(w, "interrupted\ta call under WithAtMostOnce began and left no result, known for %s more\n",
			rest(s.Record.Remaining))
	case s.Record.Size > 0:
		fmt.Fprintf(w, "result\t%d bytes, kept for %s\n", s.Record.Size, rest(s.Record.Remaining))
	}
	fmt.Fprintf(w, "waiting\t%d\n", s.Waiting)
	for i, waiter := range s.Waiters[:min(len(s.Waiters), shownWaiters)] {
		h := waiter.Holder
		fmt.Fprintf(w, "  %d.\t%s\t%s\tfor %s\n", i+1, process(h), holderName(h), age(h.Since, now))
	}
	if more := s.Waiting - shownWaiters; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	_ = w.Flush()
}

// writeOwners writes a line for each of several owners.
func writeOwners(w io.Writer, owners []guard.Waiter, now time.Time) {
	for i, o := range owners[:min(len(owners), shownOwners)] {
		fmt.Fprintf(w, "  %d.\t%s\t%s\tfor %s\towner %s\n",
			i+1, process(o.Holder), holderName(o.Holder), age(o.Holder.Since, now), printable(o.Owner))
	}
	if more := len(owners) - shownOwners; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Local().Format("2006-01-02 15:04:05.000 MST")
}
