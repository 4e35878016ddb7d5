package lockmwtest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"

	"github.com/go-lockguard/guard"
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
