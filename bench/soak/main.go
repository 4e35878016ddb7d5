// Soak runs a guard over many processes while it kills, stops and cuts them off, and looks whether it keeps its promises: no
// two sections at once, tokens that rise, waits that end, and keys that are free again in time.
//
//	go run ./bench/soak
//	go run ./bench/soak -turns 100000 -seed 7 -procs 6 -callers 10
//	go run ./bench/soak -mutant noowner -for 60s
//
// The exit status is 1 if a promise was broken. See bench/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitOK          = 0
	exitFailed      = 1 // a promise was broken, or the run itself failed
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if text := os.Getenv(jobEnv); text != "" {
		if err := workerMain(text, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitFailed)
		}
		return
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
		fmt.Fprintf(stderr, "soak: %v\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the run at once

	b, err := runAll(ctx, cfg, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "soak: %v\n", err)
		return exitFailed
	}
	b.report(stdout)
	switch {
	case b.violated() > 0:
		return exitFailed
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitOK
}
