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

// signals has the command that gets what guardctl is told, or nil while there
// is none.
type signals struct{ to atomic.Pointer[receiver] }

// receiver is the group of a command that is about to run. A signal that comes
// before the command has started waits for that.
type receiver struct {
	*group
	started chan struct{} // closed when the command has started, or cannot
}

func (r *receiver) pass(s os.Signal) {
	<-r.started
	if r.command.Process != nil {
		r.group.pass(s)
	}
}

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
			} else if r := s.to.Load(); r != nil {
				r.pass(sig)
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

// passTo lets g have the signals until stop is called. The command of g is
// about to start, and started is called when it has, or cannot.
func passTo(ctx context.Context, g *group) (started, stop func()) {
	s, ok := ctx.Value(signalsKey{}).(*signals)
	if !ok { // not a process of its own
		return func() {}, func() {}
	}
	r := &receiver{g, make(chan struct{})}
	s.to.Store(r)
	return func() { close(r.started) }, func() { s.to.Store(nil) }
}
