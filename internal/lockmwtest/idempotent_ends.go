package lockmwtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

func lostIdempotent(r *rig) {
	c := order()
	work := c.h
	c.h = func(w http.ResponseWriter, req *http.Request) error {
		if c.runs > 1 {
			return work(w, req)
		}
		if !r.locker.Lose(idempotencyKey) {
			r.Error("the key was not held")
		}
		<-req.Context().Done()
		w.Header().Set("X-Order", "1")
		return work(w, req)
	}
	one, two := r.instances(c.serve)
	w := r.pay(one)
	r.expectProblem(w, http.StatusInternalServerError, "lock_lost", false)
	if w := r.pay(two); w.Body.String() != "order 2" || replayed(w) {
		r.Errorf("then %d %s", w.Code, w.Body)
	}
}

func lostFlushed(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		err := ok(w, req)
		w.(http.Flusher).Flush()
		r.locker.Lose(idempotencyKey)
		<-req.Context().Done()
		return err
	}}
	app, _ := r.instances(c.serve)
	r.expectDone(r.pay(app))
	if logs := r.logs.String(); !strings.Contains(logs, "lease lost, but the handler's response stands") {
		r.Errorf("want a log of the loss, got:\n%s", logs)
	}
}

func notKept(r *rig) {
	c := order()
	work, mend := c.h, func() {}
	c.h = func(w http.ResponseWriter, req *http.Request) error {
		mend = r.locker.Break()
		return work(w, req)
	}
	app, _ := r.instances(c.serve)
	w := r.pay(app)
	if w.Code != http.StatusCreated || w.Body.String() != "order 1" || replayed(w) {
		r.Errorf("got %d %s", w.Code, w.Body)
	}
	const warning = `level=WARN msg="guard: the store did not confirm that an answer was kept"`
	if logs := r.logs.String(); !strings.Contains(logs, warning) ||
		!strings.Contains(logs, guard.KeyHash(idempotencyKey)) || strings.Contains(logs, sku) {
		r.Errorf("want a warning, got:\n%s", logs)
	}
	mend()
}

func panicsKeepNothing(r *rig) {
	for _, own := range []any{errors.New("own"), http.ErrAbortHandler} {
		c := order()
		work := c.h
		c.h = func(w http.ResponseWriter, req *http.Request) error {
			err := work(w, req)
			if c.runs == 1 {
				panic(own)
			}
			return err
		}
		one, two := r.instances(c.serve)
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if got := recover(); got != own {
					r.Errorf("recovered %v, want the handler's own", got)
				}
			}()
			one.ServeHTTP(w, r.payment())
		}()
		if w.Body.Len() > 0 {
			r.Errorf("the client got %s", w.Body)
		}
		if w := r.pay(two); w.Body.String() != "order 2" || replayed(w) {
			r.Errorf("then %d %s", w.Code, w.Body)
		}
		if _, err := r.guard.Forget(r.Context(), idempotencyKey); err != nil {
			r.Error(err)
		}
	}
}

func exitsKeepNothing(r *rig) {
	c := order()
	work := c.h
	c.h = func(w http.ResponseWriter, req *http.Request) error {
		err := work(w, req)
		if c.runs == 1 {
			runtime.Goexit()
		}
		return err
	}
	one, two := r.instances(c.serve)
	var wg sync.WaitGroup
	wg.Go(func() {
		r.pay(one)
		r.Error("Goexit was stopped")
	})
	wg.Wait()
	if w := r.pay(two); w.Body.String() != "order 2" || replayed(w) {
		r.Errorf("then %d %s", w.Code, w.Body)
	}
}

// The rows below are about what is an answer, and what only looks like one.

// hints notes the informational answers, which a recorder takes for the answer.
type hints struct {
	*httptest.ResponseRecorder

	links []string
}

func (h *hints) WriteHeader(status int) {
	if status < 200 {
		h.links = append(h.links, h.Header().Get("Link"))
		return
	}
	h.ResponseRecorder.WriteHeader(status)
}

func hintsGoThrough(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		return ok(w, req)
	}}
	one, two := r.instances(c.serve)
	w := &hints{ResponseRecorder: httptest.NewRecorder()}
	one.ServeHTTP(w, r.payment())
	r.expectDone(w.ResponseRecorder)
	if len(w.links) != 1 || w.links[0] != "</style.css>" || w.Header().Get("Link") != "" {
		r.Errorf("got hints %q, and then the Link %q", w.links, w.Header().Get("Link"))
	}
	r.expectSame(w.ResponseRecorder, r.pay(two))
	r.expectRuns(c, 1)
}

// A framework's writer may take what was only informational for the answer.
func informational(r *rig) {
	for name, row := range map[string]struct {
		then Handler
		body string
	}{
		"body":    {ok, "done"},
		"nothing": {func(http.ResponseWriter, *http.Request) error { return nil }, ""},
	} {
		c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
			w.WriteHeader(http.StatusEarlyHints)
			return row.then(w, req)
		}}
		one, two := r.instances(c.serve)
		w := &hints{ResponseRecorder: httptest.NewRecorder()}
		one.ServeHTTP(w, r.named(name))
		if w.Code != http.StatusOK || w.Body.String() != row.body {
			r.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		r.expectSame(w.ResponseRecorder, send(two, r.named(name)))
		r.expectRuns(c, 1)
	}
}

// hijackable is a server's writer whose connection can be taken over.
type hijackable struct {
	*httptest.ResponseRecorder

	refuses bool // as HTTP/2 does
	taken   bool
}

func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if h.refuses {
		return nil, nil, http.ErrNotSupported
	}
	h.taken = true
	conn, client := net.Pipe()
	_ = client.Close()
	return conn, nil, nil
}

// unwraps is a middleware's writer, which knows only where it passes on.
type unwraps struct{ http.ResponseWriter }

func (u unwraps) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Nobody knows what a handler writes to a connection that it has taken over.
func takenOver(r *rig) {
	for name, take := range map[string]func(http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error){
		"writer": func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
			if h, ok := w.(http.Hijacker); ok {
				return h.Hijack()
			}
			return nil, nil, http.ErrNotSupported
		},
		"controller": controlled,
		"wrapper": func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
			return controlled(unwraps{w})
		},
	} {
		c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
			conn, _, err := take(w)
			if err != nil {
				return ok(w, req)
			}
			return conn.Close()
		}}
		one, two := r.instances(c.serve)
		w := &hijackable{ResponseRecorder: httptest.NewRecorder()}
		one.ServeHTTP(w, r.named(name))
		if !w.taken || w.Body.Len() > 0 {
			r.Errorf("%s: taken over %v, then written %q", name, w.taken, w.Body)
		}
		r.expectProblem(send(two, r.named(name)), http.StatusConflict, "idempotency_answer_gone", false)
		r.expectRuns(c, 1)
		w = &hijackable{ResponseRecorder: httptest.NewRecorder(), refuses: true}
		one.ServeHTTP(w, r.named(name+"-refused"))
		r.expectDone(w.ResponseRecorder)
		r.expectSame(w.ResponseRecorder, send(two, r.named(name+"-refused")))
		r.expectRuns(c, 2)
	}
}

func controlled(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w).Hijack()
}

// The client knows that it has not got all. Nobody may take the rest for all.
func cut(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		w.Header().Set("Content-Length", "100")
		return ok(w, req)
	}}
	one, two := r.instances(c.serve)
	r.expectDone(r.pay(one)) // a recorder does not look at the length
	r.expectProblem(r.pay(two), http.StatusConflict, "idempotency_answer_gone", false)
	r.expectRuns(c, 1)
}

// A middleware outside sets its headers for the replay too, or another one
// that fits.
func outerHeaders(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		w.Header().Set("Content-Language", "de")
		return ok(w, req)
	}}
	one, two := r.instances(c.serve)
	first := httptest.NewRecorder()
	first.Header().Set("Content-Encoding", "gzip")
	first.Header().Set("Content-Type", "text/csv")
	one.ServeHTTP(first, r.payment())
	then := httptest.NewRecorder()
	then.Header().Set("Content-Type", "text/csv")
	two.ServeHTTP(then, r.payment())
	r.expectSame(first, then)
	h, kind := then.Header(), first.Header().Get("Content-Type")
	if h.Get("Content-Encoding") != "" || h.Get("Content-Type") != kind || h.Get("Content-Language") != "de" {
		r.Errorf("replayed with %v", h)
	}
	r.expectRuns(c, 1)
}

func idempotentRefusedInside(r *rig) {
	r.hold(r.other, idempotencyKey)
	lock, outer := Lock{Template: template}, once
	outer.Scope = keyfunc.Static("outer")
	r.allRefused(map[string][]Lock{
		"a lock in it":           {outer, lock},
		"a lock in a lock in it": {outer, {Static: "a"}, lock},
		"it in a lock":           {{Static: "a"}, once},
		"it in another one":      {outer, once},
	})
}

// A held key will be free later. The same request must go through then.
func refusalInside(r *rig) {
	g := r.guard.With(guard.WithMaxWait(0))
	err := func(req *http.Request) error {
		return g.Do(req.Context(), key, func(context.Context) error { return nil })
	}
	for name, row := range map[string]struct {
		h     Handler // after the key was refused; nil if a middleware refuses it
		kept  bool
		locks []Lock
	}{
		"middleware": {nil, false, []Lock{once, {Template: template}}},
		"handler":    {func(_ http.ResponseWriter, req *http.Request) error { return err(req) }, false, []Lock{once}},
		"written": {func(w http.ResponseWriter, req *http.Request) error {
			o, _ := outcome.Of(req.Context(), err(req))
			outcome.Write(w, o)
			return nil
		}, false, []Lock{once}},
		"envelope200": {func(w http.ResponseWriter, req *http.Request) error {
			o, _ := outcome.Of(req.Context(), err(req))
			o.Prepare(w.Header())
			_, err := io.WriteString(w, string(o.Code))
			return err
		}, false, []Lock{once}},
		"status": {func(w http.ResponseWriter, req *http.Request) error {
			o, _ := outcome.Of(req.Context(), err(req))
			w.WriteHeader(o.Status)
			return nil
		}, false, []Lock{once}},
		"done": {func(w http.ResponseWriter, req *http.Request) error {
			_, _ = outcome.Of(req.Context(), err(req)) // to log it
			return ok(w, req)
		}, true, []Lock{once}},
	} {
		c := order()
		if work := c.h; row.h != nil {
			c.h = func(w http.ResponseWriter, req *http.Request) error {
				if err(req) != nil {
					return row.h(w, req)
				}
				return work(w, req)
			}
		}
		release := r.hold(r.other, key)
		one, two := r.instances(c.serve, row.locks...)
		first := send(one, r.named(name))
		if told := first.Header().Get("Retry-After") != ""; told != (row.h == nil) { // a middleware has done nothing
			r.Errorf("%s: got Retry-After %q", name, first.Header().Get("Retry-After"))
		}
		release()
		runs := c.runs
		w := send(two, r.named(name))
		if replayed(w) != row.kept || (c.runs == runs) != row.kept {
			r.Errorf("%s: first %d %s, then %d %s, replay %v, want %v", name, first.Code, first.Body, w.Code, w.Body,
				replayed(w), row.kept)
		}
	}
}
