package ctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/go-lockguard/guard"
)

func (c *console) release() *cli.Command {
	return &cli.Command{
		Name:      "release",
		Usage:     "take a key from its holder by force, and hand it to the next who waits",
		ArgsUsage: "KEY",
		Description: `For a holder that hangs. Its function may still be running: its context ends with its next renewal (within a third
of its TTL, or at once), and whoever gets the key does not wait for that. So look at that process first, and prefer to
end it: then the key frees itself with its TTL.

It frees the key only if the owner that it has shown you still has it. Of a key that several leases share it frees one: that
of --owner. Exit status 1 if nothing was freed.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask; needed where nobody can answer"},
			&cli.StringFlag{Name: "owner", Usage: "the owner `id`, as show tells it; without it, whoever " +
				"holds the key now"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := args(cmd, 1); err != nil {
				return err
			}
			return withGuard(ctx, cmd, func(g *guard.Guard) error { return c.force(ctx, cmd, g) })
		},
	}
}

// force shows the holder, asks, and releases.
func (c *console) force(ctx context.Context, cmd *cli.Command, g *guard.Guard) error {
	key := cmd.Args().First()
	s, err := inspect(ctx, cmd, g, key)
	if err != nil {
		return err
	}
	if !s.Held {
		return errors.New("nobody holds the key: nothing was released")
	}
	victim, err := chosen(s, cmd.String("owner"))
	if err != nil {
		return err
	}
	if !cmd.Bool("json") {
		writeState(c.out, s, time.Now())
		fmt.Fprintf(c.out, "\nThe function on %s may go on for a while beside the next holder.\n",
			process(victim.Holder))
	}
	if !cmd.Bool("yes") {
		if err := c.ask(ctx, "Release it?"); err != nil {
			return err
		}
	}
	look, cancel := limited(ctx, cmd)
	defer cancel()
	switch err := g.ForceRelease(look, key, victim.Owner); {
	case errors.Is(err, guard.ErrLeaseLost):
		return errors.New("that owner does not hold the key any more: nothing was released")
	case err != nil:
		return err
	}
	if cmd.Bool("json") {
		return writeJSON(c.out, map[string]any{"released": true, "owner": victim.Owner, "state": s})
	}
	freed := "released"
	if s.Limit > 0 {
		freed = fmt.Sprintf("released 1 of %d", len(s.Owners))
	}
	fmt.Fprintf(c.out, "%s, %d waited\n", freed, s.Waiting)
	return nil
}

// chosen returns the owner of s that is to be released. id is "" for the only
// one.
func chosen(s guard.KeyState, id string) (guard.Waiter, error) {
	owners := s.Owners
	if s.Limit == 0 {
		owners = []guard.Waiter{{Owner: s.Owner, Holder: s.Holder}}
	}
	switch {
	case id != "":
	case len(owners) == 1:
		return owners[0], nil
	default:
		return guard.Waiter{}, fmt.Errorf("the key is %s: say which one with --owner, as show tells it; "+
			"nothing was released", where(s))
	}
	if i := slices.IndexFunc(owners, func(w guard.Waiter) bool { return w.Owner == id }); i >= 0 {
		return owners[i], nil
	}
	if s.Limit == 0 {
		return guard.Waiter{}, fmt.Errorf("the key is held by owner %s, not by %s: nothing was released",
			printable(s.Owner), printable(id))
	}
	return guard.Waiter{}, fmt.Errorf("the key is %s, none of them owner %s: nothing was released",
		where(s), printable(id))
}

func inspect(ctx context.Context, cmd *cli.Command, g *guard.Guard, key string) (guard.KeyState, error) {
	ctx, cancel := limited(ctx, cmd)
	defer cancel()
	return g.Inspect(ctx, key)
}

var errNotAsked = errors.New("nobody can be asked here: pass --yes; nothing was done")

// ask asks the question and returns nil for a yes.
func (c *console) ask(ctx context.Context, question string) error {
	if f, ok := c.in.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		return errNotAsked
	}
	fmt.Fprint(c.out, question, " Type yes: ")
	line := make(chan string, 1)
	go func() { // ends with the line, or with the process
		text, _ := bufio.NewReader(c.in).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		if strings.TrimSpace(text) != "yes" {
			return errors.New("nothing was done")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
