// Torture runs lock libraries in many processes, over a network and servers
// that fail all the time. It checks whether the libraries keep their promises.
//
//	go run ./lab/torture -for 60s -topology single -seed 1 -libs guard,redislock,redsync,rueidislock
//	go run ./lab/torture -mutant noowner
//
// The exit status is 1 if guard broke a promise. See
// lab/torture/README.md.
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

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/lab/internal/childproc"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

const (
	exitOK          = 0
	exitFailed      = 1 // guard broke a promise, or there was no run
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if childproc.IsChild() {
		os.Exit(childproc.Main(work))
	}
	os.Exit(etcdtest.Main(func() int { return command(os.Args[1:], os.Stdout, os.Stderr) }))
}

// command is the parent process.
func command(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "torture: %v\n", err)
		return exitUsage
	case cfg.schedule:
		for _, s := range newSchedule(cfg) {
			fmt.Fprintln(stdout, s)
		}
		return exitOK
	}
	redis.SetLogger(&logging.VoidLogger{}) // servers that are down are no news here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the run at once

	failed := false
	var verdicts []*judge.Verdict
	for _, lib := range cfg.libs {
		if !lib.Offers(cfg.topology) {
			fmt.Fprintf(stderr, "%s is not made for %s\n", lib.Name, cfg.topology)
			continue
		}
		v, err := torture(ctx, cfg, lib, stderr)
		if err != nil {
			fmt.Fprintf(stderr, "torture: %s: %v\n", lib.Name, err)
			return exitFailed
		}
		verdicts = append(verdicts, v)
		failed = failed || v.Fails()
		if ctx.Err() != nil {
			break
		}
	}
	judge.Report(stdout, cfg.title(), cfg.faults, cfg.roles, verdicts)
	switch {
	case failed:
		return exitFailed
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitOK
}
