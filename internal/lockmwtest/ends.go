package lockmwtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing/synctest"
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

// The client waits for an answer.
func handlerEndsItsWait(r *rig) {
	order := guard.Key("order", sku)
	r.hold(r.other, order)
	app := r.app(r.guard, func(_ http.ResponseWriter, req *http.Request) error {
		ctx, cancel := context.WithCancel(req.Context())
		time.AfterFunc(maxWait/2, cancel)
		*req = *req.WithContext(ctx) // as a handler that passes the request on
		return r.guard.Do(ctx, order, func(context.Context) error { return nil })
	}, template)
	r.expectProblem(post(r.Context(), app, path), http.StatusServiceUnavailable, "lock_wait_aborted", false)
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

// lose deletes the key while the handler runs, and waits until the handler's
// context ends.
func (r *rig) lose(req *http.Request) {
	if !r.locker.Lose(key) {
		r.Error("the key was not held")
	}
	<-req.Context().Done()
	if cause := context.Cause(req.Context()); !errors.Is(cause, guard.ErrLeaseLost) {
		r.Errorf("the handler's context ended with %v", cause)
	}
}

func lostBefore(r *rig) {
	app := r.app(r.guard, func(w http.ResponseWriter, req *http.Request) error {
		w.Header().Set("Content-Length", "1000") // of an answer that is not sent
		w.Header().Set("Retry-After", "1")
		r.lose(req)
		return nil
	}, template)
	w := post(r.Context(), app, path)
	r.expectProblem(w, http.StatusInternalServerError, "lock_lost", false)
	if got := w.Header().Get("Content-Length"); got == "1000" {
		r.Error("the handler's Content-Length stands")
	}
}

func lostAndFailed(r *rig) {
	app := r.app(r.guard, func(_ http.ResponseWriter, req *http.Request) error {
		r.lose(req)
		return r.guard.Do(req.Context(), key, func(context.Context) error { return nil })
	}, template)
	r.expectProblem(post(r.Context(), app, path), http.StatusInternalServerError, "lock_lost", false)
}

func lostAfter(r *rig) {
	app := r.app(r.guard, func(w http.ResponseWriter, req *http.Request) error {
		err := ok(w, req)
		r.lose(req)
		return err
	}, template)
	r.expectLostAnswer(post(r.Context(), app, path))
}

func lostBeforeAnAnswer(r *rig) {
	app := r.app(r.guard, func(w http.ResponseWriter, req *http.Request) error {
		r.lose(req)
		return ok(w, req)
	}, template)
	r.expectLostAnswer(post(r.Context(), app, path))
}

// expectLostAnswer fails the test unless the response stands and the log says
// so. A buffered response must have been replaced instead.
func (r *rig) expectLostAnswer(w *httptest.ResponseRecorder) {
	r.Helper()
	if r.Buffered {
		r.expectProblem(w, http.StatusInternalServerError, "lock_lost", false)
		return
	}
	r.expectDone(w)
	r.expectToldLost()
}

// expectToldLost fails the test unless the log says that the response stands.
// The line must name the guard and the hash of the key, but not the key.
func (r *rig) expectToldLost() {
	r.Helper()
	logs := r.logs.String()
	if !strings.Contains(logs,
		`"guard: lease lost, but the handler's response stands" guard=shop route="POST /stock/`) ||
		!strings.Contains(logs, "key_hash="+guard.KeyHash(key)+" error=") {
		r.Errorf("want a log of the loss, got:\n%s", logs)
	}
	if strings.Contains(logs, sku) {
		r.Errorf("the log tells the key:\n%s", logs)
	}
}

func tooLong(r *rig) {
	app := r.app(r.guard, func(_ http.ResponseWriter, req *http.Request) error {
		<-req.Context().Done()
		if cause := context.Cause(req.Context()); !errors.Is(cause, guard.ErrMaxHold) {
			r.Errorf("the handler's context ended with %v", cause)
		}
		return nil
	}, template)
	start := time.Now()
	w := post(r.Context(), app, path)
	r.expectProblem(w, http.StatusInternalServerError, "lock_lost", false)
	if d := time.Since(start); d != maxHold {
		r.Errorf("it lasted %v, want %v", d, maxHold)
	}
}

func givenUp(r *rig) {
	app := r.app(r.guard, func(_ http.ResponseWriter, req *http.Request) error {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		_ = r.guard.Close(ctx) // does not wait for us
		<-req.Context().Done()
		return nil
	}, template)
	r.expectProblem(post(r.Context(), app, path), http.StatusInternalServerError, "lock_lost", false)
}

func lostOutside(r *rig) {
	inner := guard.Key("inner")
	r.hold(r.other, inner)
	app := r.app(r.guard.With(guard.WithMaxWait(time.Minute)), r.never, template, "inner")
	var wg sync.WaitGroup
	wg.Go(func() {
		w := post(r.Context(), app, path)
		r.expectProblem(w, http.StatusInternalServerError, "lock_lost", false)
	})
	synctest.Wait()
	r.locker.Lose(key)
	wg.Wait()
}
