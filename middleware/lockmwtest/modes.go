package lockmwtest

import (
	"net/http"

	"github.com/go-lockguard/guard"
)

// These rows are about how many requests may have a key at once.

func readers(r *rig) {
	read := r.app(r.guard.With(guard.WithShared()), ok, template)
	write := r.app(r.guard, ok, template)
	release := r.hold(r.other.With(guard.WithShared()), key)
	r.expectDone(post(r.Context(), read, path))
	r.expectProblem(post(r.Context(), write, path), http.StatusConflict, "lock_held", true)
	release()
	r.expectDone(post(r.Context(), write, path))
	r.hold(r.other, key)
	r.expectProblem(post(r.Context(), read, path), http.StatusConflict, "lock_held", true)
}

func permits(r *rig) {
	two := guard.WithPermits(2)
	app := r.app(r.guard.With(two), ok, template)
	r.hold(r.other.With(two), key)
	r.expectDone(post(r.Context(), app, path))
	release := r.hold(r.other.With(two), key)
	r.expectProblem(post(r.Context(), app, path), http.StatusConflict, "lock_held", true)
	release()
	r.expectDone(post(r.Context(), app, path))
}
