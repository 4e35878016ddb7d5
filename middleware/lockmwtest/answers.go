package lockmwtest

import (
	"context"
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/outcome"
)

func answers(r *rig) {
	r.hold(r.other, key)
	g := r.guard.With(guard.WithMaxWait(0))
	house := Lock{Answers: true, OnError: teapot}
	wants := func(_ http.ResponseWriter, req *http.Request) error {
		return g.Do(req.Context(), key, func(context.Context) error { return nil })
	}
	own := func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusAccepted) }
	lock, inside := Lock{Template: template}, Lock{Answers: true, OnError: own}
	locked := Lock{Answers: true, Held: http.StatusLocked}
	for name, c := range map[string]struct {
		app    http.Handler
		status int
	}{
		"a lock":                   {r.Mount(g, r.never, house, lock), http.StatusTeapot},
		"a handler without a lock": {r.Mount(g, wants, house), http.StatusTeapot},
		"a handler under a lock":   {r.Mount(g, wants, house, Lock{Static: "a"}), http.StatusTeapot},
		"a lock with its own": {r.Mount(g, r.never, house,
			Lock{Template: template, OnError: own}), http.StatusAccepted},
		"answers inside answers":  {r.Mount(g, r.never, house, inside, lock), http.StatusAccepted},
		"a status added to them":  {r.Mount(g, r.never, house, locked, lock), http.StatusTeapot},
		"answers inside the lock": {r.Mount(g, r.never, lock, house), http.StatusConflict},
	} {
		if w := post(r.Context(), c.app, path); w.Code != c.status {
			r.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.status)
		}
	}
}

func heldStatus(r *rig) {
	release := r.hold(r.other, key)
	g := r.guard.With(guard.WithMaxWait(0))
	for _, status := range []int{409, 423, 429, 503} {
		for _, locks := range [][]Lock{
			{{Template: template, Held: status}},
			{{Answers: true, Held: status}, {Template: template}},
			{{Answers: true, Held: http.StatusLocked}, {Template: template, Held: status}},
		} {
			r.expectProblem(post(r.Context(), r.Mount(g, r.never, locks...), path), status, "lock_held", true)
		}
	}
	told := 0
	tell := func(w http.ResponseWriter, req *http.Request, err error) {
		o, _ := outcome.Of(req.Context(), err)
		told = o.Status
		w.WriteHeader(http.StatusOK)
	}
	telling := r.Mount(g, r.never, Lock{Answers: true, Held: http.StatusLocked},
		Lock{Template: template, OnError: tell})
	_ = post(r.Context(), telling, path)
	if told != http.StatusLocked {
		r.Errorf("the error handler is told %d", told)
	}

	// If a handler wanted a key itself, its request must not be repeated
	// blindly.
	wants := func(_ http.ResponseWriter, req *http.Request) error {
		return g.Do(req.Context(), key, func(context.Context) error { return nil })
	}
	inner := r.Mount(g, wants, Lock{Static: "a", Held: http.StatusServiceUnavailable})
	r.expectProblem(post(r.Context(), inner, path), http.StatusConflict, "lock_held", false)
	release()

	mend := r.locker.Break()
	other := r.Mount(g, r.never, Lock{Template: template, Held: http.StatusLocked})
	r.expectProblem(post(r.Context(), other, path), http.StatusServiceUnavailable, "lock_unavailable", true)
	mend()
	for _, status := range []int{1, 200, 400, 425, 500} {
		if r.refusalOf(Lock{Template: template, Held: status}) == nil {
			r.Errorf("%d was not refused", status)
		}
	}
}
