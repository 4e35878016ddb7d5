package ctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/go-lockguard/guard"
)

const shortestPause = 100 * time.Millisecond

func (c *console) watch() *cli.Command {
	return &cli.Command{
		Name:  "watch",
		Usage: "show what ls shows, again and again, until Ctrl-C",
		Description: `On a terminal it shows as many keys as fit, the longest queue first. An error is shown, and the next look comes all
the same. Cost: that of ls, each time.`,
		Flags: []cli.Flag{
			&cli.DurationFlag{
				Name: "interval", Aliases: []string{"n"}, Value: 2 * time.Second,
				Usage: "pause between two looks",
			},
			&cli.BoolFlag{Name: "waited", Aliases: []string{"w"}, Usage: "only keys that somebody waits for"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := args(cmd, 0); err != nil {
				return err
			}
			return withGuard(ctx, cmd, func(g *guard.Guard) error { return c.follow(ctx, cmd, g) })
		},
	}
}

// follow repeats its look until ctx ends.
func (c *console) follow(ctx context.Context, cmd *cli.Command, g *guard.Guard) error {
	pause := max(cmd.Duration("interval"), shortestPause)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		look, cancel := limited(ctx, cmd)
		keys, err := list(look, g, cmd.Bool("waited"))
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, guard.ErrInvalidOption):
			return err
		case cmd.Bool("json"):
			err = errors.Join(writeJSON(c.out, keys...), err)
			if err != nil {
				return err
			}
		default:
			c.draw(keys, err, pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// draw replaces the content of a terminal. To anything else it appends.
func (c *console) draw(keys []guard.KeyState, err error, pause time.Duration) {
	now := time.Now()
	var b bytes.Buffer
	seen := summary(keys)
	if err != nil && len(keys) == 0 {
		seen = "no answer"
	}
	fmt.Fprintf(&b, "%s  %s, every %v\n", now.Format(time.TimeOnly), seen, pause)
	if err != nil {
		fmt.Fprintln(&b, "error:", printable(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	width, height, onTerminal := size(c.out)
	if rows := height - 4; onTerminal && len(keys) > rows {
		keys = keys[:max(rows, 0)]
	}
	writeTable(&b, keys, now)
	if !onTerminal {
		_, _ = c.out.Write(append(b.Bytes(), '\n'))
		return
	}
	c.out.redraw()
	rows := 0 // owners of a key have lines of their own
	for line := range strings.Lines(b.String()) {
		if rows++; rows >= height {
			return
		}
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > width {
			line = string(runes[:width]) + "\n"
		}
		_, _ = io.WriteString(c.out, line)
	}
}

// size returns the size of out, if out is a terminal.
func size(out terminal) (width, height int, ok bool) {
	f := out.file()
	if f == nil {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return width, height, err == nil
}
