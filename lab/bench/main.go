// Bench measures guard beside other Go libraries for locks in Redis, which are
// bsm/redislock, go-redsync/redsync and rueidislock. It starts its own
// redis-server. It runs several rounds of every workload with every library in
// turn. In each run it checks that the library excluded. Some workloads measure
// guard alone. It prints medians, ratios and all rounds. See README.md beside
// this file.
//
//	go run ./lab/bench
//	go run ./lab/bench -only hot,takeover -libs guard,rueidislock -rounds 3
//	go run ./lab/bench -quick
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-lockguard/guard/lab/internal/childproc"
)

// Exit statuses. A bar that is not met is not a failure.
const (
	exitOK          = 0
	exitFailed      = 1 // a library did not exclude, or the run itself failed
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if childproc.IsChild() {
		os.Exit(childproc.Main(childMain))
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command is the parent process.
func command(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the run at once

	res, err := runAll(ctx, cfg, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFailed
	}
	if err := present(res, cfg, stdout); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFailed
	}
	if len(res.Violations)+len(res.Failed) > 0 {
		return exitFailed
	}
	return exitOK
}

// present writes the report, for people or for machines, and the plots.
func present(res *results, cfg config, w io.Writer) error {
	var files []string
	if cfg.plots != "" {
		var err error
		if files, err = drawAll(&data{res.Runs, res.Rounds}, cfg.plots); err != nil {
			return err
		}
	}
	if cfg.json {
		return json.NewEncoder(w).Encode(res)
	}
	report(w, res)
	for _, f := range files {
		fmt.Fprintln(w, "plot:", f)
	}
	return nil
}
