package ctl

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// ends are the signals that tell guardctl, and with it the command of run, to
// end.
var ends = []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGABRT}

// told is the cause of a context that a signal has ended.
type told struct{ os.Signal }

func (t told) Error() string { return "told to end: " + t.String() }

// endSignal returns the signal for a command whose ctx has ended.
func endSignal(ctx context.Context) os.Signal {
	if t := (told{}); errors.As(context.Cause(ctx), &t) {
		return t.Signal
	}
	return syscall.SIGTERM
}

type signalsKey struct{}

// signals has the group of the command that gets what guardctl is told, or nil
// while there is none.
type signals struct{ to atomic.Pointer[group] }

// listen returns a context that the first of ends ends. Every other signal, and
// every later one, goes to the command that runs, if there is one. Signals that
// guardctl was started to ignore, by nohup or the & of a shell script, stay so.
// stop waits for the end of the goroutine that hears them.
func listen(parent context.Context) (ctx context.Context, stop func()) {
	s, c := &signals{}, make(chan os.Signal, 16)
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, signalsKey{}, s))
	signal.Notify(c, slices.DeleteFunc(slices.Concat(ends, passed()), signal.Ignored)...)
	var heard sync.WaitGroup
	heard.Go(func() { // ends with stop
		for sig := range c {
			if slices.Contains(ends, sig) && ctx.Err() == nil {
				cancel(told{sig})
			} else if g := s.to.Load(); g != nil {
				g.pass(sig)
			}
		}
	})
	return ctx, func() {
		signal.Stop(c)
		close(c)
		heard.Wait()
		cancel(nil)
	}
}

// passTo lets g, whose command runs, have the signals until stop is called.
func passTo(ctx context.Context, g *group) (stop func()) {
	s, ok := ctx.Value(signalsKey{}).(*signals)
	if !ok { // not a process of its own
		return func() {}
	}
	s.to.Store(g)
	return func() { s.to.Store(nil) }
}
