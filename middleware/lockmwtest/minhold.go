package lockmwtest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-lockguard/guard"
)

func minHold(r *rig) {
	opts := []guard.Option{guard.WithMinHold(30 * time.Second), guard.WithMaxWait(0)}
	here, there := r.app(r.guard.With(opts...), ok, template), r.app(r.other.With(opts...), ok, template)
	r.expectDone(post(r.Context(), here, path))
	begin := time.Now()
	for range 20 { // jitter would show
		for process, app := range map[string]http.Handler{"here": here, "in another process": there} {
			left := 30*time.Second - time.Since(begin)
			w := post(r.Context(), app, path)
			r.expectProblem(w, http.StatusConflict, "lock_held", true)
			after, _ := strconv.Atoi(w.Header().Get("Retry-After"))
			if told := time.Duration(after) * time.Second; told < left || told > left+time.Second {
				r.Errorf("%s: Retry-After %d with %v left", process, after, left)
			}
		}
		time.Sleep(1300 * time.Millisecond)
	}
	time.Sleep(5 * time.Second)
	r.expectDone(post(r.Context(), there, path))
}

func minHoldOnSuccess(r *rig) {
	keep := r.guard.With(guard.WithMinHold(5*time.Second, guard.OnSuccess), guard.WithMaxWait(0))
	status := func(code int) Handler {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(code)
			return nil
		}
	}
	held := guard.Key("order")
	for name, c := range map[string]struct {
		handler Handler
		kept    bool
	}{
		"nothing":         {func(http.ResponseWriter, *http.Request) error { return nil }, true},
		"200 by its body": {ok, true},
		"201":             {status(http.StatusCreated), true},
		"303":             {status(http.StatusSeeOther), true},
		"400":             {status(http.StatusBadRequest), false},
		"409":             {status(http.StatusConflict), false},
		"500":             {status(http.StatusInternalServerError), false},
		"an error":        {func(http.ResponseWriter, *http.Request) error { return errors.New("own") }, false},
		"an error of ours": {func(_ http.ResponseWriter, req *http.Request) error {
			return keep.Do(req.Context(), held, func(context.Context) error { return nil })
		}, false},
		"200, then an error": {func(w http.ResponseWriter, req *http.Request) error {
			_ = ok(w, req)
			return guard.ErrNotAcquired
		}, !r.Buffered},
	} {
		release := r.hold(r.other, held)
		_ = post(r.Context(), r.app(keep, c.handler, template), path)
		release()
		l, err := r.other.TryAcquire(r.Context(), key)
		if kept := errors.Is(err, guard.ErrNotAcquired); kept != c.kept {
			r.Errorf("%s: kept %v (%v), want %v", name, kept, err, c.kept)
		}
		if err == nil {
			_ = l.Release(r.Context())
		}
		time.Sleep(6 * time.Second)
	}
}
