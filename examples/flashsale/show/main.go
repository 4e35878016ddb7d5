// Package show plays the flash sale: it starts the instances and the buyers,
// counts what came of it, and tells it on a console or a page. Package shop has
// what an instance sells by.
//
// Where to look:
//
//   - main.go, config.go: the command
//   - sale.go: one sale
//   - fleet.go, instance.go: the processes
//   - store.go: where stock and orders are kept
//   - story.go, acts.go: the five acts
//   - web.go, stage.go: the page
//   - record.go: a page in a file
//   - waterfall.go: what spans tell
package show

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1 // an invariant is broken, or the run itself failed
	exitUsage       = 2
	exitInterrupted = 130
)

// Main is the program with these arguments. It returns its exit status when all
// that it has started has ended. In a process that it has started itself it is
// one app instance.
func Main(args []string, stdout, stderr io.Writer) int {
	if settings := os.Getenv(instanceEnv); settings != "" {
		return instanceMain(settings)
	}
	return run(args, stdout, stderr)
}

// run is the parent process: one sale, the story, or the live page.
func run(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(stdout, args[len(args)-1] == "all")
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "flashsale: %v\nflashsale: -h lists the flags\n", err)
		return exitUsage
	}

	// The first signal ends the run in good order, a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	ok, err := play(ctx, cfg, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "flashsale: interrupted, the instances are stopped")
		if errors.Is(err, errLeft) { // else err is the interruption itself
			fmt.Fprintf(stderr, "flashsale: %v\n", err)
		}
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "flashsale: %v\n", err)
		return exitFailed
	case !ok:
		return exitFailed
	}
	return exitOK
}

// play runs what the flags ask for, and reports whether everything held that
// must hold. With -json people read stderr, and the last line of stdout is for
// programs.
func play(ctx context.Context, cfg config, stdout, stderr io.Writer) (ok bool, err error) {
	if cfg.record != "" {
		if err := openRecord(cfg.record); err != nil {
			return false, err
		}
	}
	if cfg.story {
		return tellStory(ctx, cfg, newConsole(stdout))
	}
	con := newConsole(stdout)
	if cfg.json {
		con = newConsole(stderr)
	}
	if cfg.web {
		return true, serveWeb(ctx, cfg, con, stdout)
	}
	perform := runSale
	if cfg.record != "" {
		perform = recordSale
	}
	res, err := perform(ctx, cfg, con)
	if err != nil {
		return false, err
	}
	printReport(con, res)
	if cfg.json {
		if err := json.NewEncoder(stdout).Encode(res); err != nil {
			return false, err
		}
	}
	return len(res.broken()) == 0, nil
}

// visitorFlags are those that -h shows; -h all shows the others too.
var visitorFlags = []string{"web", "mode", "stock", "requests", "instances", "redis"}

func usage(w io.Writer, all bool) {
	fmt.Fprintln(w, strings.TrimSpace(`
flashsale sells one stock through several app instances at once and counts what went wrong.

Usage: go run ./examples/flashsale [flags]
`)+"\n")
	every := newFlagSet(new(config))
	shown := flag.NewFlagSet(every.Name(), flag.ContinueOnError)
	shown.SetOutput(w)
	every.VisitAll(func(f *flag.Flag) {
		if all || slices.Contains(visitorFlags, f.Name) {
			shown.Var(f.Value, f.Name, f.Usage)
		}
	})
	shown.PrintDefaults()
	if !all {
		fmt.Fprintln(w, "\n-h all lists every flag.")
	}
}
