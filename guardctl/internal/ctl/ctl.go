// Package ctl is command guardctl. A program that imports it and some stores
// serves these stores.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v3"
)

// Main runs the command line of this process and returns its exit status. It
// blocks until the command is done, or the process is interrupted.
func Main() (status int) {
	redis.SetLogger(silent{}) // errors are returned, and printed once
	ctx, stop := listen(context.Background())
	defer stop()
	return Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
}

// errNoCommand is returned if no command was given.
var errNoCommand = errors.New("there is no command: see guardctl help")

// Run runs one command line and returns its exit status. It blocks until the
// command is done, or ctx ends.
func Run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) (status int) {
	root := command(in, out, errs)
	errs = terminal{errs}
	exit := (*exitError)(nil)
	switch err := root.Run(ctx, delimit(root, args)); {
	case errors.Is(err, errNoCommand):
		root.Writer = errs
		_ = cli.ShowRootCommandHelp(root) // there is no use for an error here
		return 2
	case errors.As(err, &exit):
		if exit.err != nil {
			fmt.Fprintln(errs, "guardctl:", err)
		}
		return exit.status
	case err != nil:
		fmt.Fprintln(errs, "guardctl:", err)
		return 1
	}
	return 0
}

// version returns the version of the module, as go run and go install know it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// silent is go-redis's logger.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// command is guardctl, which reads answers from in and writes to out. The
// command of run inherits all three.
func command(in io.Reader, out, errs io.Writer) *cli.Command {
	c := &console{in: in, out: terminal{out}, errs: terminal{errs}}
	return &cli.Command{
		Name:  "guardctl",
		Usage: "who holds and who waits for a guarded key",
		Description: `Keys are named as in the code, guard.Key("stock", 42) being stock:42. Looking disturbs nobody: ls goes through the
server with SCAN, a page at a time, and nothing is changed but by release and forget.

Errors go to standard error, with exit status 1, or 2 without a command. With --json a line of standard output is one value; its names are in
snake_case, durations are nanoseconds and their names end in _ns.

Examples:
  guardctl ls                                          # REDIS_URL, or redis://localhost:6379
  guardctl --url rediss://ops@redis:6380/2 show stock:42
  guardctl --url redis://sentinel:26379 --sentinel mymaster watch
  guardctl --cluster --url redis://node:6379 ls --json
  guardctl --url etcd://a:2379,b:2379 ls               # any store that locker.FromDSN knows: run guardctl/all
  guardctl release stock:42                            # shows whom it hurts, and asks
  guardctl forget pay:42                               # deletes the result of guard.Once
  guardctl run report -- ./report --daily              # runs a command while it holds a key`,
		Flags: globalFlags(),
		Commands: []*cli.Command{
			c.list(), c.show(), c.watch(), c.release(), c.forget(), c.check(), c.prove(), c.run(),
		},
		Version:        version(),
		Writer:         c.out,
		ErrWriter:      c.out,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // Run prints it
		OnUsageError:   func(_ context.Context, _ *cli.Command, err error, _ bool) error { return err },
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return fmt.Errorf("there is no command %q: see guardctl help", name)
			}
			return errNoCommand
		},
	}
}

// console is the input and output of guardctl.
type console struct {
	in        io.Reader
	out, errs terminal
}
