package guardtest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// recorder is a testing.TB that records the messages of a test. It is ended by
// hand.
type recorder struct {
	testing.TB // for methods that are not needed here

	ctx      context.Context
	cancel   context.CancelFunc
	cleanups []func()
	errors   []string
	fatal    bool
}

func newRecorder() *recorder {
	r := new(recorder)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Failed() bool { return len(r.errors) > 0 }

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// Fatalf ends the goroutine, as it does in a test.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.fatal = true
	runtime.Goexit()
}

// run runs f in a goroutine that Fatalf may end, and waits for it.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() { // ends with f
		defer close(done)
		f()
	}()
	<-done
}

// end does the same as the end of a test.
func (r *recorder) end() {
	r.cancel()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}
