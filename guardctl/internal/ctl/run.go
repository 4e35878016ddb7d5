package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/go-lockguard/guard"
)

// Exit statuses of run beside those of its command: EX_UNAVAILABLE and
// EX_TEMPFAIL of sysexits.h, and those of a POSIX shell.
const (
	statusUnavailable = 69
	statusHeld        = 75
	statusCannotStart = 126
	statusNotFound    = 127
	statusSignal      = 128 // plus the signal that ended the command
)

// exitError ends guardctl with a status of its own. Without err nothing is
// printed.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func (c *console) run() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a command while this process holds a key",
		ArgsUsage: "KEY -- COMMAND [ARGUMENT...]",
		Description: `The lease renews itself for as long as the command runs. The command finds GUARD_KEY and GUARD_TOKEN, a fencing token, in
its environment. Flags of guardctl stand before COMMAND; what follows it is the command's, also without the two dashes.

If the lease is lost, the command's process group gets SIGTERM, and SIGKILL after --grace. SIGTERM, SIGINT, SIGQUIT, SIGHUP and SIGABRT tell
guardctl to end: the group gets the same signal, and SIGKILL after --grace. To have a command reload by SIGHUP, send it to the command.
Every other signal that a program can handle, such as SIGUSR1, is passed on and ends nothing, but those that stop a process: a stopped
guardctl renews nothing. If the input is a terminal, only the command itself gets them: it stays in guardctl's group, so that it can
read, and Ctrl-C and Ctrl-Z reach both.

As process 1 of a container guardctl takes the status of processes that the command has left behind. If guardctl itself is killed with
SIGKILL, Linux kills the command with it, but not the processes that the command has started; on other systems the command goes on
without a lease. On Windows the command is ended at once, and its own processes go on.

With --once a command that ended with status 0 is recorded: a later run does nothing and ends with 0. A run that failed, or was told
to end, is not recorded. A quorum of Redis servers keeps no records.

Exit status: that of the command, or 128 and the signal that ended it; 75 if the key was held for as long as --wait; 69 if the store
gave no answer; 127 if there is no such command, and 126 if it cannot be started; 1 for all else, such as a lease that was lost
while the command ended with 0, or success that was not recorded.`,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "wait", Value: 3 * time.Second, Usage: "for the key, at most; 0 tries once"},
			&cli.DurationFlag{Name: "ttl", Value: 10 * time.Second, Usage: "of the key, if guardctl dies"},
			&cli.DurationFlag{Name: "once", Usage: "keep success for this long, and do not run again until then"},
			&cli.DurationFlag{Name: "grace", Value: 10 * time.Second, Usage: "between SIGTERM and SIGKILL"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			switch {
			case cmd.Args().Len() < 2:
				return errors.New("run takes a key and a command: guardctl run KEY -- COMMAND [ARGUMENT...]")
			case cmd.IsSet("once") && cmd.Duration("once") <= 0:
				return errors.New("--once must be above 0: it says for how long success is recorded")
			case cmd.Duration("grace") < 0:
				return errors.New("--grace must not be negative")
			}
			l, closeClient, err := open(cmd)
			if err != nil {
				return err
			}
			defer closeClient()
			j, err := c.job(cmd)
			if err != nil {
				return err
			}
			return withLocker(ctx, l, func(g *guard.Guard) error { return j.under(ctx, g) }, guard.WithFencing(),
				guard.WithMaxHold(0), guard.WithMaxWait(cmd.Duration("wait")), guard.WithTTL(cmd.Duration("ttl")))
		},
	}
}

// job is one command under a key.
type job struct {
	key         string
	command     []string
	once, grace time.Duration
	in          io.Reader
	out, errs   io.Writer
}

// job reads the command line. Its error says that there is no such command.
func (c *console) job(cmd *cli.Command) (*job, error) {
	all := cmd.Args().Slice()
	if _, err := exec.LookPath(all[1]); err != nil {
		status := statusCannotStart
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			status = statusNotFound
		}
		return nil, &exitError{status, err}
	}
	return &job{
		key: all[0], command: all[1:], once: cmd.Duration("once"), grace: cmd.Duration("grace"),
		in: c.in, out: c.out.out, errs: c.errs.out,
	}, nil
}

// under runs the command while g holds the key. It returns nil only for a
// command that ended with 0, now or, with --once, before.
func (j *job) under(ctx context.Context, g *guard.Guard) error {
	ran := false
	run := func(ctx context.Context) (struct{}, error) {
		ran = true
		return struct{}{}, j.run(ctx)
	}
	var err error
	if j.once > 0 {
		_, err = guard.Once(ctx, g, j.key, j.once, run)
	} else {
		_, err = guard.Call(ctx, g, j.key, run)
	}
	own, held := (*exitError)(nil), (*guard.HeldError)(nil)
	switch {
	case errors.Is(err, guard.ErrLeaseLost):
		fmt.Fprintf(terminal{j.errs}, "guardctl: %v: the command was ended\n", err)
		if !errors.As(err, &own) || own.status == 0 {
			return &exitError{status: 1}
		}
		return own
	case err == nil && !ran:
		fmt.Fprintln(terminal{j.errs}, "guardctl: the command has succeeded before: nothing was run")
		return nil
	case ran:
		return err
	case errors.As(err, &held):
		return &exitError{statusHeld, fmt.Errorf("%w: %s", err, process(held.Holder))}
	case errors.Is(err, guard.ErrUnavailable):
		return &exitError{statusUnavailable, err}
	}
	return err
}

// delimit puts two dashes before the command of run if there are none, because
// package cli would take the command's flags for its own.
func delimit(root *cli.Command, args []string) []string {
	values := map[string]bool{} // the flags that another argument follows
	for _, f := range slices.Concat(root.Flags, root.Command("run").Flags) {
		takes, ok := f.(cli.DocGenerationFlag)
		for _, name := range f.Names() {
			values[name] = ok && takes.TakesValue()
		}
	}
	words := 0 // run, and its key
	for i := 1; i < len(args); i++ {
		arg := args[i]
		switch flag := strings.TrimLeft(arg, "-"); {
		case arg == "--":
			return args
		case flag != "" && arg[0] == '-':
			if values[flag] {
				i++
			}
		case words == 0 && arg != "run":
			return args
		case words == 2:
			return slices.Insert(slices.Clone(args), i, "--")
		default:
			words++
		}
	}
	return args
}

// run runs the command until it ends. When ctx ends, the command is told to
// end, and killed when its grace is over. The thread that starts a process is
// the one whose death may end it, so run keeps to its thread.
func (j *job) run(ctx context.Context) error {
	token, err := guard.FencingToken(ctx)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, j.command[0], j.command[1:]...) //nolint:gosec // the user's own
	c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = j.in, j.out, j.errs, max(j.grace, time.Millisecond)
	c.Env = append(os.Environ(), "GUARD_KEY="+j.key, "GUARD_TOKEN="+strconv.FormatUint(token, 10))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := newGroup(c)
	c.Cancel = func() error { return g.terminate(endSignal(ctx)) }
	started, forget := passTo(ctx, g)
	defer forget()
	err = c.Start()
	started()
	if err != nil {
		return &exitError{statusCannotStart, err}
	}
	release := g.adopt()
	defer release()
	err = c.Wait()
	g.end()
	switch status := exitStatus(c.ProcessState); {
	case status != 0 || ctx.Err() != nil && j.once == 0:
		return &exitError{status: status}
	case ctx.Err() != nil:
		return &exitError{1, errNotRecorded}
	}
	return err
}

var errNotRecorded = errors.New("the command was told to end: its success is not recorded")
