package lockmwtest

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

func clientGone(r *rig) {
	r.hold(r.other, key)
	ctx, cancel := context.WithCancel(r.Context())
	time.AfterFunc(maxWait/2, cancel)
	start := time.Now()
	w := post(ctx, r.app(r.guard, r.never, template), path)
	r.expectNothing(w)
	if d := time.Since(start); d != maxWait/2 {
		r.Errorf("noticed after %v, want %v", d, maxWait/2)
	}
}

// The key is free when the request has its turn, and nobody waits for it.
func clientGoneBefore(r *rig) {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	app := r.app(r.guard, r.never, template)
	r.expectNothing(post(ctx, app, path))

	release := r.hold(r.other, key)
	ctx, cancel = context.WithCancel(r.Context())
	released := make(chan struct{})
	time.AfterFunc(maxWait/2, func() {
		defer close(released)
		cancel()
		release()
	})
	r.expectNothing(post(ctx, app, path))
	<-released // the request may be answered between cancel and release
	r.mustBeFree(key)
}

func clientGoneInside(r *rig) {
	order := guard.Key("order", sku)
	r.hold(r.other, order)
	ctx, cancel := context.WithCancel(r.Context())
	time.AfterFunc(maxWait/2, cancel)
	app := r.app(r.guard, func(_ http.ResponseWriter, req *http.Request) error {
		return r.guard.Do(req.Context(), order, func(context.Context) error { return nil })
	}, template)
	r.expectNothing(post(ctx, app, path))
	r.mustBeFree(key)
}

func outerDeadline(r *rig) {
	r.hold(r.other, key)
	ctx, cancel := context.WithTimeout(r.Context(), maxWait/2)
	defer cancel()
	w := post(ctx, r.app(r.guard, r.never, template), path)
	if !r.Timeout {
		r.expectProblem(w, http.StatusServiceUnavailable, "lock_wait_aborted", false)
	} else if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "lock_") {
		r.Errorf("got %d %s, want the framework's 503", w.Code, w.Body)
	}
}

func shortServer(r *rig) {
	const warning = `level=WARN msg="guard: the server's WriteTimeout leaves no time after a wait`
	for limit, lines := range map[time.Duration]int{
		0: 0, maxWait: 1, maxWait + time.Second - 1: 1, maxWait + time.Second: 0,
	} {
		r.logs.text.Reset()
		server := &http.Server{WriteTimeout: limit}
		ctx := context.WithValue(r.Context(), http.ServerContextKey, server)
		app := r.app(r.guard, ok, template)
		for range 3 {
			r.expectDone(post(ctx, app, path))
		}
		if logs := r.logs.String(); strings.Count(logs, warning) != lines || strings.Count(logs, "\n") != lines {
			r.Errorf("WriteTimeout %v: want %d warnings, got:\n%s", limit, lines, logs)
		}
		r.expectDone(post(ctx, r.app(r.guard.With(guard.WithMaxWait(0)), ok, template), path)) // does not wait
	}
}

func panics(r *rig) {
	own := errors.New("own")
	app := r.app(r.guard, func(http.ResponseWriter, *http.Request) error { panic(own) }, template)
	func() {
		defer func() {
			if got := recover(); got != any(own) { // itself, not wrapped
				r.Errorf("recovered %v, want the handler's own", got)
			}
		}()
		post(r.Context(), app, path)
	}()
	r.mustBeFree(key)
}

func exits(r *rig) {
	app := r.app(r.guard, func(http.ResponseWriter, *http.Request) error {
		runtime.Goexit()
		return nil
	}, template)
	var wg sync.WaitGroup
	wg.Go(func() {
		post(r.Context(), app, path)
		r.Error("Goexit was stopped")
	})
	wg.Wait()
	r.mustBeFree(key)
}
