package ctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
)

func (c *console) forget() *cli.Command {
	return &cli.Command{
		Name:      "forget",
		Usage:     "delete the result of guard.Once for a key, or the mark of a call that was interrupted",
		ArgsUsage: "KEY",
		Description: `The next call of guard.Once runs its function again: find out first what the earlier call has done. A call that runs
now is not disturbed, and keeps its result.

It shows the key and asks. Exit status 1 if there was no result, or nothing was deleted.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask; needed where nobody can answer"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := args(cmd, 1); err != nil {
				return err
			}
			return withGuard(ctx, cmd, func(g *guard.Guard) error { return c.forgetKey(ctx, cmd, g) })
		},
	}
}

var errNoResult = errors.New("the key has no result: nothing was deleted")

// forgetKey shows the key, asks, and deletes its result.
func (c *console) forgetKey(ctx context.Context, cmd *cli.Command, g *guard.Guard) error {
	s, err := inspect(ctx, cmd, g, cmd.Args().First())
	if err != nil {
		return err
	}
	if s.Record.Size == 0 {
		return errNoResult
	}
	if !cmd.Bool("json") {
		writeState(c.out, s, time.Now())
		fmt.Fprintln(c.out, "\nThe next call runs its function again.")
	}
	question := "Delete the result?"
	if s.Record.Interrupted {
		question = "Do you know what the interrupted call has done, and may the function run again?"
	}
	if !cmd.Bool("yes") {
		if err := c.ask(ctx, question); err != nil {
			return err
		}
	}
	ctx, cancel := limited(ctx, cmd)
	defer cancel()
	switch found, err := g.Forget(ctx, s.Key); {
	case err != nil:
		return err
	case !found:
		return errNoResult
	}
	if cmd.Bool("json") {
		return writeJSON(c.out, map[string]any{"forgotten": true, "state": s})
	}
	fmt.Fprintln(c.out, "deleted")
	return nil
}
