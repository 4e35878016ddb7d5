package lockmwtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

func whichHeaders(r *rig) {
	set := map[string]string{
		"Content-Type": "text/plain; charset=x", "Content-Language": "de", "Content-Disposition": "inline",
		"Location": "/orders/1", "Allow": "GET", "Etag": `"1"`, "Last-Modified": "Mon, 02 Jan 2006 15:04:05 GMT", "Link": "</a>; rel=next",
		"Content-Range": "bytes 0-3/9", "Cache-Control": "no-store", "Vary": "Origin",
		"X-Content-Type-Options": "nosniff",
		"X-Order":                "1",
	}
	never := map[string]string{
		"Set-Cookie": "s=1", "Www-Authenticate": "Basic", "Authorization": "x", "X-Other": "1", "Keep-Alive": "1",
	}
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		for _, h := range []map[string]string{set, never} {
			for name, value := range h {
				w.Header().Set(name, value)
			}
		}
		return ok(w, req)
	}}
	lock := once
	lock.KeptHeaders = []string{"x-order"}
	one, two := r.instances(c.serve, lock)
	first, then := r.pay(one), r.pay(two)
	r.expectSame(first, then)
	for name, value := range set {
		if a, b := first.Header().Values(name), then.Header().Values(name); len(a) != 1 || a[0] != value ||
			len(b) != 1 || b[0] != value {
			r.Errorf("%s: first %q, then %q, want %q", name, a, b, value)
		}
	}
	for name, value := range never {
		if name != "Keep-Alive" && first.Header().Get(name) != value || then.Header().Values(name) != nil {
			r.Errorf("%s: first %q, then %q", name, first.Header().Get(name), then.Header().Values(name))
		}
	}
	for _, name := range []string{
		"Set-Cookie", "set-cookie", "Authorization", "WWW-Authenticate", "Connection", "Date", "",
	} {
		bad := once
		bad.KeptHeaders = []string{name}
		if r.refusalOf(bad) == nil {
			r.Errorf("%q was not refused", name)
		}
	}

	// A type that the handler leaves to the server stays the same.
	c = &counter{h: func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, "<!doctype html><p>done")
		return err
	}}
	one, two = r.instances(c.serve)
	typed := func(app http.Handler) string { return send(app, r.named("typed")).Result().Header.Get("Content-Type") }
	a, b := typed(one), typed(two)
	if b == "" || a != "" && a != b { // a recorder leaves out what a server finds
		r.Errorf("Content-Type %q, then %q", a, b)
	}
}

func whichAnswers(r *rig) {
	status, later := 0, ""
	c := &counter{h: func(w http.ResponseWriter, _ *http.Request) error {
		if later != "" {
			w.Header().Set("Retry-After", later)
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent && status != http.StatusNotModified {
			_, _ = io.WriteString(w, "text")
		}
		return nil
	}}
	one, two := r.instances(c.serve)
	for _, row := range []struct {
		status int
		later  string
		kept   bool
	}{
		{200, "", true},
		{201, "", true},
		{204, "", true},
		{301, "", true},
		{303, "", true},
		{304, "", true},
		{400, "", true},
		{401, "", false},
		{402, "", true},
		{404, "", true},
		{409, "", true},
		{422, "", true},
		{498, "", true},
		{499, "", false},
		{499, "1", false},
		{408, "", false},
		{425, "", false},
		{429, "", false},
		{500, "", false},
		{502, "", false},
		{503, "", false},
		{202, "1", true},
		{303, "1", true},
		{409, "1", false},
		{503, "1", false},
	} {
		status, later, c.runs = row.status, row.later, 0
		name := fmt.Sprintf("%d%s", status, later)
		first, then := send(one, r.named(name)), send(two, r.named(name))
		if first.Code != status || then.Code != status || first.Body.String() != then.Body.String() ||
			replayed(first) || replayed(then) != row.kept || (c.runs == 1) != row.kept {
			r.Errorf("%d, Retry-After %q: got %d %s, then %d %s, replay %v, %d runs; want it kept: %v", status, later,
				first.Code, first.Body, then.Code, then.Body, replayed(then), c.runs, row.kept)
		}
	}
}

// An answer that was written is one. If there is none, it may be that the
// handler has given up, and it may be that all was done.
func goneMeanwhile(r *rig) {
	for name, row := range map[string]struct {
		write func(w http.ResponseWriter)
		known bool
	}{
		"text":    {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "paid") }, true},
		"status":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, true},
		"nothing": {func(http.ResponseWriter) {}, false},
	} {
		ctx, leave := context.WithCancel(r.Context())
		c := &counter{h: func(w http.ResponseWriter, _ *http.Request) error {
			leave()
			row.write(w)
			return nil
		}}
		one, two := r.instances(c.serve)
		_ = send(one, r.named(name).WithContext(ctx))
		w := send(two, r.named(name))
		if row.known && !replayed(w) {
			r.Errorf("%s: then %d %s", name, w.Code, w.Body)
		}
		if !row.known {
			r.expectProblem(w, http.StatusConflict, "idempotency_answer_gone", false)
		}
		r.expectRuns(c, 1)
	}
}

func ownErrorKept(r *rig) {
	c := &counter{h: func(http.ResponseWriter, *http.Request) error { return errors.New("own") }}
	one, two := r.instances(c.serve)
	first := r.pay(one)
	if first.Code != http.StatusTeapot {
		r.Errorf("got %d %s, want the app's own answer", first.Code, first.Body)
	}
	r.expectSame(first, r.pay(two))
	r.expectRuns(c, 1)
}

// A mark stays where nobody knows what was done.
func atMostOnce(r *rig) {
	status, later, own := 0, "", any(nil)
	c := &counter{h: func(w http.ResponseWriter, _ *http.Request) error {
		if own != nil {
			panic(own)
		}
		if later != "" {
			w.Header().Set("Retry-After", later)
		}
		w.WriteHeader(status)
		return nil
	}}
	bound := guard.WithAtMostOnce()
	one, two := r.Mount(r.guard.With(bound), c.serve, once), r.Mount(r.other.With(bound), c.serve, once)
	for _, row := range []struct {
		status int
		later  string
		own    any
		marked bool
	}{
		{500, "", nil, true},
		{503, "1", nil, false},
		{502, "1", nil, false},
		{401, "", nil, false},
		{200, "", http.ErrAbortHandler, true},
		{499, "1", nil, true},
		{429, "", nil, false},
		{409, "1", nil, false},
	} {
		status, later, own, c.runs = row.status, row.later, row.own, 0
		name := fmt.Sprint(status, later)
		func() {
			defer func() { _ = recover() }()
			send(one, r.named(name))
		}()
		own = nil
		w := send(two, r.named(name))
		if row.marked {
			r.expectProblem(w, http.StatusConflict, "idempotency_interrupted", false)
			r.expectProblem(send(two, r.named(name)), http.StatusConflict, "idempotency_interrupted", false)
			r.expectRuns(c, 1)
			r.expectForget(name)
		} else if w.Code != status || c.runs != 2 {
			r.Errorf("%d: then %d %s, %d runs", status, w.Code, w.Body, c.runs)
		}
	}
	status = http.StatusCreated
	if _, err := r.guard.Forget(r.Context(), guard.Key("idempotent", "ann", "500")); err != nil {
		r.Error(err)
	}
	if w := send(two, r.named("500")); w.Code != http.StatusCreated {
		r.Errorf("after Forget: %d %s", w.Code, w.Body)
	}

	// A lock in front of the handler has done nothing.
	release := r.hold(r.other, key)
	locked := r.Mount(r.guard.With(bound), c.serve, once, Lock{Template: template})
	r.expectProblem(send(locked, r.named("locked")), http.StatusConflict, "lock_held", true)
	release()
	if w := send(locked, r.named("locked")); w.Code != http.StatusCreated {
		r.Errorf("after a refusal: %d %s", w.Code, w.Body)
	}
}

// expectForget fails the test unless the log has told once which key Forget
// wants for the request with that Idempotency-Key.
func (r *rig) expectForget(name string) {
	r.Helper()
	line := `level=WARN msg="guard: a request was begun before and not finished: find out what it did, ` +
		`then let it run again with guardctl forget" guard=shop route="POST /stock/`
	wanted := 0
	for l := range strings.SplitSeq(r.logs.String(), "\n") {
		if strings.Contains(l, line) && strings.HasSuffix(l, " key="+guard.Key("idempotent", "ann", name)) {
			wanted++
		}
	}
	if wanted != 1 {
		r.Errorf("%s: %d lines say what to forget, want 1:\n%s", name, wanted, r.logs.String())
	}
}

// An answer that was flushed has gone to the client before it is kept. It is
// kept only if all of it is known, and the client has got it.
func flushed(r *rig) {
	const limit = 300
	for name, row := range map[string]struct {
		kind, more string
		leaves     bool
		kept       bool
	}{
		"whole":     {"text/plain", " and more", false, true},
		"too-long":  {"text/plain", strings.Repeat("x", limit), false, false},
		"events":    {"text/event-stream", " and more", false, false},
		"half-read": {"text/plain", "", true, false},
	} {
		ctx, leave := context.WithCancel(r.Context())
		c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
			w.Header().Set("Content-Type", row.kind)
			w.Header().Set("Location", "/a")
			err := ok(w, req)
			w.(http.Flusher).Flush()
			if row.leaves {
				leave()
			}
			_, _ = io.WriteString(w, row.more)
			return err
		}}
		bound := guard.WithResultLimit(limit)
		one, two := r.Mount(r.guard.With(bound), c.serve, once), r.Mount(r.other.With(bound), c.serve, once)
		first := send(one, r.named(name).WithContext(ctx))
		if first.Code != http.StatusOK || first.Body.String() != "done"+row.more || !first.Flushed {
			r.Errorf("%s: got %d %s, flushed %v", name, first.Code, first.Body, first.Flushed)
		}
		w := send(two, r.named(name))
		if row.kept {
			r.expectSame(first, w)
			if w.Header().Get("Location") != "/a" || w.Header().Get("Content-Type") != row.kind {
				r.Errorf("%s: replayed with %v", name, w.Header())
			}
		} else {
			r.expectProblem(w, http.StatusConflict, "idempotency_answer_gone", false)
		}
		r.expectRuns(c, 1)
		leave()
	}
}

// Whatever a handler finds below its writer, what it sends there is the answer
// of all requests, or that of none.
func writtenPast(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
		for {
			outer, found := w.(interface{ Unwrap() http.ResponseWriter })
			if !found {
				return ok(w, req)
			}
			w = outer.Unwrap()
		}
	}}
	one, two := r.instances(c.serve)
	first := r.pay(one)
	r.expectDone(first)
	if w := r.pay(two); replayed(w) {
		r.expectSame(first, w)
	} else {
		r.expectProblem(w, http.StatusConflict, "idempotency_answer_gone", false)
	}
	r.expectRuns(c, 1)
}

// A deadline of a middleware outside is no client that has left: somebody gets
// an answer, and sends the request again.
func deadlineOutside(r *rig) {
	for name, row := range map[string]struct {
		h    Handler
		kept bool
	}{
		"silence": {func(http.ResponseWriter, *http.Request) error { return nil }, false},
		"answer":  {ok, true},
	} {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		c := &counter{h: func(w http.ResponseWriter, req *http.Request) error {
			time.Sleep(2 * time.Second)
			return row.h(w, req)
		}}
		one, two := r.instances(c.serve)
		_ = send(one, r.named(name).WithContext(ctx))
		runs := map[bool]int{false: 2, true: 1}
		if w := send(two, r.named(name)); replayed(w) != row.kept || w.Code != http.StatusOK {
			r.Errorf("%s: then %d %s, replay %v", name, w.Code, w.Body, replayed(w))
		}
		r.expectRuns(c, runs[row.kept])
		cancel()
	}
}

// The limit is that of what the store keeps, so the body must be a little
// shorter. Where it ends there must be one step, and no answer that is cut.
func overTheLimit(r *rig) {
	const limit = 300
	size, seen := 0, map[bool]int{}
	c := &counter{h: func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "a/b")
		for range size {
			if _, err := io.WriteString(w, "x"); err != nil {
				return err
			}
		}
		return nil
	}}
	bound := guard.WithResultLimit(limit)
	one, two := r.Mount(r.guard.With(bound), c.serve, once), r.Mount(r.other.With(bound), c.serve, once)
	for size = limit - 100; size <= limit+100; size++ {
		name := fmt.Sprint("size", size)
		first, then := send(one, r.named(name)), send(two, r.named(name))
		if first.Code != http.StatusOK || first.Body.String() != strings.Repeat("x", size) {
			r.Errorf("%d bytes: got %d and %d bytes", size, first.Code, first.Body.Len())
		}
		kept := replayed(then)
		seen[kept]++
		switch {
		case kept && seen[false] > 0:
			r.Errorf("%d bytes are kept, fewer are not", size)
		case kept && size > limit:
			r.Errorf("%d bytes are kept, the limit is %d", size, limit)
		case kept:
			r.expectSame(first, then)
		default:
			r.expectProblem(then, http.StatusConflict, "idempotency_answer_gone", false)
		}
	}
	if seen[true] < 60 || seen[false] < 100 {
		r.Errorf("%d were kept and %d were not", seen[true], seen[false])
	}
	r.expectRuns(c, 201)
}

// watched calls seen before the first byte of an answer goes to the client.
type watched struct {
	*httptest.ResponseRecorder

	seen func()
	once sync.Once
}

func (w *watched) WriteHeader(status int) {
	w.once.Do(w.seen)
	w.ResponseRecorder.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	w.once.Do(w.seen)
	return w.ResponseRecorder.Write(b)
}

func heldBack(r *rig) {
	c := order()
	app, _ := r.instances(c.serve)
	sent := 0
	app.ServeHTTP(&watched{ResponseRecorder: httptest.NewRecorder(), seen: func() {
		sent++
		if !r.peek(r.Context()) {
			r.Error("the client gets an answer that another process does not find")
		}
	}}, r.payment())
	if sent != 1 {
		r.Error("nothing was sent")
	}
}

func compressed(r *rig) {
	c := &counter{h: func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/plain")
		_, err := w.Write([]byte{0x1f, 0x8b, 0, '\n', 0xff})
		return err
	}}
	one, two := r.instances(c.serve)
	first, then := r.pay(one), r.pay(two)
	r.expectSame(first, then)
	if got := then.Header().Get("Content-Encoding"); got != "gzip" {
		r.Errorf("got Content-Encoding %q", got)
	}
	r.expectRuns(c, 1)
}
