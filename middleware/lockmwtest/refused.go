package lockmwtest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

func noValue(r *rig) {
	app := r.app(r.guard, r.never, "stock:{query.sku}")
	for _, query := range []string{"", "?sku=", "?sku=1&sku=2", "?sku=42;", "?sku=42&x=%zz"} {
		w := post(r.Context(), app, "/stock/x"+query)
		r.expectProblem(w, http.StatusBadRequest, "lock_key_invalid", false)
	}
	r.expectProblem(post(r.Context(), r.app(r.guard, r.never, "{header.X-Tenant}"), "/stock/x"),
		http.StatusBadRequest, "lock_key_invalid", false)
}

func noSource(r *rig) {
	app := r.app(r.guard, r.never, "stock:{id}")
	for range 3 { // but only one line in the log
		r.expectProblem(post(r.Context(), app, path), http.StatusInternalServerError, "lock_misconfigured", false)
	}
	logs := r.logs.String()
	if strings.Count(logs, "level=ERROR") != 1 || !strings.Contains(logs, `guard=shop route="POST /stock/`) ||
		!strings.Contains(logs, `path \"id\"`) {
		r.Errorf("want one error that names route and source, got:\n%s", logs)
	}
	if strings.Contains(logs, sku) {
		r.Errorf("the log tells the value:\n%s", logs)
	}
}

func badRequests(r *rig) {
	for _, c := range []struct {
		template string
		req      *http.Request
		status   int
		code     string
		detail   string
	}{
		{
			"{query.sku}", request("/stock/x"), http.StatusBadRequest, "lock_key_invalid",
			`query parameter "sku", which names the resource to lock, is missing`,
		},
		{
			"{sku|int}", request(path), http.StatusBadRequest, "lock_key_invalid",
			`path parameter "sku", which names the resource to lock, is malformed`,
		},
		{
			"{json.sku}", withBody("text/plain", sku), http.StatusUnsupportedMediaType,
			"lock_unsupported_media_type", `JSON member "sku"`,
		},
		{
			"{form.sku}", withBody("application/json", sku), http.StatusUnsupportedMediaType,
			"lock_unsupported_media_type", `form field "sku"`,
		},
	} {
		_, w := r.keyOf(c.template, c.req)
		r.expectProblem(w, c.status, c.code, false)
		var body struct{ Detail string }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || !strings.Contains(body.Detail, c.detail) {
			r.Errorf("%s: got %s, want %s", c.template, w.Body, c.detail)
		}
	}
}

func noKey(r *rig) {
	for _, none := range []string{"", "stock:%!d(string=42)"} {
		app := r.Mount(r.guard, r.never, Lock{Key: func(*http.Request) (string, error) { return none, nil }})
		r.expectProblem(post(r.Context(), app, path), http.StatusInternalServerError, "lock_misconfigured", false)
	}
}

func ownKeyError(r *rig) {
	lock := Lock{Key: func(*http.Request) (string, error) { return "", errors.New("no session " + sku) }}
	w := post(r.Context(), r.Mount(r.guard, r.never, lock), path)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), sku) {
		r.Errorf("got %d %s", w.Code, w.Body)
	}
	lock.OnError = teapot
	if w := post(r.Context(), r.Mount(r.guard, r.never, lock), path); w.Code != http.StatusTeapot {
		r.Errorf("got %d %s, want the error handler's answer", w.Code, w.Body)
	}
	const line = `level=ERROR msg="guard: the key function of a route failed" guard=shop route="POST /stock/`
	logs := r.logs.String()
	for _, what := range []string{line, "error=\"no session ", "\n"} {
		if strings.Count(logs, what) != 2 {
			r.Errorf("want a line each, with the error handler and without it, got:\n%s", logs)
		}
	}
}
