package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
)

func (c *console) list() *cli.Command {
	return &cli.Command{
		Name:  "ls",
		Usage: "list the keys that are held or waited for, the longest queue first",
		Description: `A key of more than 200 bytes is listed as its hash, %sha256:..., which show and release take as well.
Cost: a SCAN through the whole database, 500 keys at a time, and a small read for each lock and each queue.

Below a key that several leases share there is a line for each of the first 10; show has them all.

An error about one key stands beside the list of the others.`,
		Flags: []cli.Flag{&cli.BoolFlag{
			Name: "waited", Aliases: []string{"w"},
			Usage: "only keys that somebody waits for",
		}},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := args(cmd, 0); err != nil {
				return err
			}
			return withGuard(ctx, cmd, func(g *guard.Guard) error {
				ctx, cancel := limited(ctx, cmd)
				defer cancel()
				keys, err := list(ctx, g, cmd.Bool("waited"))
				if err != nil && len(keys) == 0 {
					return err // "0 held" would be a lie
				}
				if cmd.Bool("json") {
					return errors.Join(writeJSON(c.out, keys...), err)
				}
				writeTable(c.out, keys, time.Now())
				fmt.Fprintln(c.out, summary(keys))
				return err
			})
		},
	}
}

// list returns the keys in order. If some could not be read, it returns the
// others with an error.
func list(ctx context.Context, g *guard.Guard, waited bool) ([]guard.KeyState, error) {
	byKey := make(map[string]guard.KeyState) // a key may be listed twice
	var errs []error
	for s, err := range g.List(ctx) {
		switch {
		case err != nil && s.Key != "":
			errs = append(errs, fmt.Errorf("%s: %w", printable(s.Key), err))
		case err != nil:
			errs = append(errs, err)
		case !waited || s.Waiting > 0:
			byKey[s.Key] = s
		}
	}
	keys := make([]guard.KeyState, 0, len(byKey))
	for _, s := range byKey {
		keys = append(keys, s)
	}
	slices.SortFunc(keys, func(a, b guard.KeyState) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Key, b.Key))
	})
	return keys, errors.Join(errs...)
}

func summary(keys []guard.KeyState) string {
	held, waiting := 0, 0
	for _, s := range keys {
		if s.Held {
			held++
		}
		waiting += s.Waiting
	}
	return fmt.Sprintf("%d held, %d waiting", held, waiting)
}

// listedOwners is how many owners of a key the table names.
const listedOwners = 10

// writeTable writes a line for each key. Below the line of a key that several
// own there is a line for each of them.
func writeTable(out io.Writer, keys []guard.KeyState, now time.Time) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tGUARD\tHOLDER\tHELD FOR\tTTL LEFT\tWAITING")
	for _, s := range keys {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n",
			printable(s.Key), holderName(s.Holder), where(s), age(s.Holder.Since, now), left(s), s.Waiting)
		for _, o := range s.Owners[:min(len(s.Owners), listedOwners)] {
			h := o.Holder
			fmt.Fprintf(w, "\t%s\t%s\t%s\t\t\n", holderName(h), process(h), age(h.Since, now))
		}
		if more := len(s.Owners) - listedOwners; more > 0 {
			fmt.Fprintf(w, "\t\tand %d more\t\t\t\n", more)
		}
	}
	_ = w.Flush()
}
