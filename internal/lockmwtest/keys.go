package lockmwtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing/iotest"

	"github.com/go-lockguard/guard"
)

// id is a UUID in the usual spelling.
const id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

// keyOf serves req on a route with template. keyOf returns the handler's key,
// or the answer if the handler did not run.
func (r *rig) keyOf(template string, req *http.Request) (key string, w *httptest.ResponseRecorder) {
	r.Helper()
	app := r.app(r.guard, func(w http.ResponseWriter, req *http.Request) error {
		if l, found := guard.LeaseFrom(req.Context()); found {
			key = l.Key()
		}
		return ok(w, req)
	}, template)
	w = httptest.NewRecorder()
	app.ServeHTTP(w, req.WithContext(r.Context()))
	return key, w
}

// expectKey fails the test unless the handler runs under want.
func (r *rig) expectKey(template string, req *http.Request, want string) {
	r.Helper()
	if key, w := r.keyOf(template, req); key != want || w.Code != http.StatusOK {
		r.Errorf("%s, %.100s: got %.100q, %d %.100s; want %.100q", template, req.URL, key, w.Code, w.Body, want)
	}
}

// expectRefusal fails the test unless the request is answered with the problem.
func (r *rig) expectRefusal(template string, req *http.Request, status int, code string) {
	r.Helper()
	key, w := r.keyOf(template, req)
	if key != "" {
		r.Errorf("%s, %.100s: the handler ran under %.100q", template, req.URL, key)
	}
	r.expectProblem(w, status, code, false)
}

func request(target string) *http.Request { return httptest.NewRequest(http.MethodPost, target, nil) }

// refusalOf returns the value with which mounting the lock panics, or nil.
func (r *rig) refusalOf(l Lock) (refusal any) {
	defer func() { refusal = recover() }()
	r.Mount(r.guard, r.never, l)
	return nil
}

func noPlaceholder(r *rig) {
	for _, template := range []string{"stock", "stock:sku", "stock/sku", "stock:[sku]"} {
		if text := fmt.Sprint(r.refusalOf(Lock{Template: template})); !strings.Contains(text, "lockmw.Static") {
			r.Errorf("%s: got %s, want a panic that names lockmw.Static", template, text)
		}
	}
	for _, template := range []string{
		"stock/:sku", "stock:$sku", "stock:<sku>", "stock:%s",
		"stock:${sku}", "stock:$sku:{id}",
	} {
		if text := fmt.Sprint(r.refusalOf(Lock{Template: template})); !strings.Contains(text, "write {") ||
			strings.Contains(text, "Static") {
			r.Errorf("%s: got %s, want a panic that names the placeholder", template, text)
		}
	}
	for _, key := range []string{
		"stock:{sku}", "stock:", "a}", "stock/:sku", "stock/*sku",
		"stock/{sku}", "stock:$sku",
	} {
		if r.refusalOf(Lock{Static: key}) == nil {
			r.Errorf("Static(%q) was not refused", key)
		}
	}
}

func static(r *rig) {
	r.expectKey("nightly", request(path), guard.Key("nightly"))
	r.expectKey("jobs:night ly", request("/stock/other"), guard.Key("jobs", "night ly"))
	r.hold(r.other, guard.Key("nightly"))
	r.expectProblem(post(r.Context(), r.app(r.guard, r.never, "nightly"), path), http.StatusConflict, "lock_held", true)
}

func spellings(r *rig) {
	for _, v := range []string{"7", "+7", "007"} {
		r.expectKey("order:{sku|int}", request("/stock/"+v), guard.Key("order", 7))
	}
	for _, v := range []string{"-0", "0", "+00"} {
		r.expectKey("order:{query.id|int}", request("/stock/x?id="+strings.ReplaceAll(v, "+", "%2B")),
			guard.Key("order", 0))
	}
	for _, v := range []string{
		id, strings.ToUpper(id), "urn:uuid:" + id, "%7B" + id + "%7D",
		strings.ReplaceAll(id, "-", ""),
	} {
		r.expectKey("user:{sku|uuid}", request("/stock/"+v), guard.Key("user", id))
	}
	for _, v := range []string{"7x", "0x7", "%207", "7.0"} {
		r.expectRefusal("order:{sku|int}", request("/stock/"+v), http.StatusBadRequest, "lock_key_invalid")
	}
	for _, v := range []string{"ACME", "acme", " Acme\t"} {
		req := request(path)
		req.Header.Set("X-Tenant", v)
		r.expectKey("{header.X-Tenant|trim|lower}", req, guard.Key("acme"))
	}
	r.expectRefusal("{sku|nonzero}", request("/stock/0"), http.StatusBadRequest, "lock_key_invalid")
	r.expectRefusal("{query.id|nonzero}", request("/stock/x?id=-0"), http.StatusBadRequest, "lock_key_invalid")
	r.expectRefusal("{header.Id|nonzero}", withHeader("Id", "0"), http.StatusBadRequest, "lock_key_invalid")
	r.expectRefusal("{cookie.id|nonzero}", withHeader("Cookie", "id=0"), http.StatusBadRequest, "lock_key_invalid")
	r.expectRefusal("{form.id|nonzero}", withBody("application/x-www-form-urlencoded", "id=0"),
		http.StatusBadRequest, "lock_key_invalid")
	r.expectRefusal("{json.id|nonzero}", withBody("application/json", `{"id":0}`),
		http.StatusBadRequest, "lock_key_invalid")
	r.expectRefusal("{sku|maxlen=5}", request(path), http.StatusBadRequest, "lock_key_invalid")
	r.expectRefusal("{sku|oneof=a,b}", request(path), http.StatusBadRequest, "lock_key_invalid")
}

func unusualPaths(r *rig) {
	for given, value := range map[string]string{
		"%61b": "ab", "ab": "ab", "%2561b": "%61b", "a%00b": "a\x00b", "a:b": "a:b", "a%3Ab": "a:b", "100%25": "100%",
		"%E4%B8%AD": "中", "%ff": "\xff", "a+b": "a+b", "a%20b": "a b", "%7Bx%7D": "{x}",
	} {
		req := request("/stock/" + given)
		if r.Raw && req.URL.RawPath != "" {
			value = given
		}
		if given == "%2561b" { // a handler may see the same as for %61b: then it is refused
			if _, w := r.keyOf(template, req); w.Code == http.StatusBadRequest &&
				strings.Contains(w.Body.String(), "malformed") {
				continue
			}
		}
		r.expectKey(template, req, guard.Key("stock", value))
	}
	// The router decides whether an escaped slash is part of a parameter. If it
	// is, the key has a slash.
	value := "a/b"
	if r.Raw {
		value = "a%2Fb"
	}
	if key, w := r.keyOf(template, request("/stock/a%2Fb")); w.Code != http.StatusNotFound &&
		key != guard.Key("stock", value) {
		r.Errorf("got %q, %d %s", key, w.Code, w.Body)
	}
}

func extremes(r *rig) {
	long := strings.Repeat("x", 32<<10)
	r.expectKey(template, request("/stock/"+long), guard.Key("stock", long))
	r.expectKey("{query.v}", request("/stock/x?v="+long), guard.Key(long))
	r.expectRefusal("{query.v|maxlen=64}", request("/stock/x?v="+long), http.StatusBadRequest, "lock_key_invalid")
	longer := strings.Repeat("x", 1<<20) // a guard may refuse that, and then it is the client's error
	if key, w := r.keyOf(template, request("/stock/"+longer)); w.Code != http.StatusBadRequest &&
		key != guard.Key("stock", longer) {
		r.Errorf("a value of 1 MiB: got %d %.200s", w.Code, w.Body)
	}
	many := strings.Repeat("a=1&", 9_999)
	r.expectKey("{query.v}", request("/stock/x?"+many+"v=1"), guard.Key("1"))
	r.expectRefusal("{query.a}", request("/stock/x?"+many+"v=1"), http.StatusBadRequest, "lock_key_invalid")
}

// withHeader returns a request with that header.
func withHeader(name, value string) *http.Request {
	req := request(path)
	req.Header.Set(name, value)
	return req
}

// withBody returns a request with a body of the given type.
func withBody(contentType, body string) *http.Request {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	return req
}

func bodies(r *rig) {
	const form = "application/x-www-form-urlencoded"
	multi := strings.ReplaceAll("--x\nContent-Disposition: form-data; name=\"sku\"\n\n7\n--x--\n", "\n", "\r\n")
	for _, c := range []struct{ template, contentType, body, key string }{
		{"{json.sku}", "application/json", ` {"a": {}, "sku": "7"} `, "7"},
		{"{json.sku}:{json.id|int}", "application/json", `{"sku":"a:b","id":"007"}`, guard.Key("a:b", 7)},
		{"{form.sku}", form, "a=1&sku=7", "7"},
		{"{form.sku}", "multipart/form-data; boundary=x", multi, "7"},
		{"{cookie.sku}", "text/plain", "hello", "7"},
		{"{cookie.sku|nonzero}", "text/plain", "hello", "7"},
		{
			"pay:{body}", "text/plain", "hello",
			guard.Key("pay", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
		},
		{template, "text/plain", strings.Repeat("hello", 1<<20), key}, // more than is read ahead
	} {
		req := withBody(c.contentType, c.body)
		req.AddCookie(&http.Cookie{Name: "sku", Value: "7"})
		app := r.app(r.guard, func(w http.ResponseWriter, req *http.Request) error {
			if got, err := io.ReadAll(req.Body); err != nil || string(got) != c.body {
				r.Errorf("%s: the handler reads %.100q, %v", c.template, got, err)
			}
			if l, _ := guard.LeaseFrom(req.Context()); l.Key() != c.key {
				r.Errorf("%s: got %q", c.template, l.Key())
			}
			return ok(w, req)
		}, c.template)
		w := httptest.NewRecorder()
		app.ServeHTTP(w, req)
		r.expectDone(w)
	}
	for _, body := range []string{
		``, `{}`, `{"sku":""}`, `{"sku":"7","SKU":"8"}`, `{"sku":"7","sku":"7"}`,
		`{"sku":7.5}`, `{"sku":"7"`,
	} {
		r.expectRefusal("{json.sku}", withBody("application/json", body), http.StatusBadRequest, "lock_key_invalid")
	}
	r.expectRefusal("{body}", withBody("text/plain", ""), http.StatusBadRequest, "lock_key_invalid")
	r.expectRefusal("{form.sku}", withBody(form, "sku=7&sku=8"), http.StatusBadRequest, "lock_key_invalid")
	req := request(path)
	req.Header.Set("Cookie", "sku=7; sku=8")
	r.expectRefusal("{cookie.sku}", req, http.StatusBadRequest, "lock_key_invalid")
}

func bodyTooLarge(r *rig) {
	long := `{"sku":"7","x":"` + strings.Repeat("x", 64<<10) + `"}`
	r.expectRefusal("{json.sku}", withBody("application/json", long), http.StatusRequestEntityTooLarge,
		"lock_body_too_large")
	r.expectRefusal("{body}", withBody("text/plain", long), http.StatusRequestEntityTooLarge, "lock_body_too_large")
	unknown := withBody("application/json", long)
	unknown.ContentLength = -1
	r.expectRefusal("{json.sku}", unknown, http.StatusRequestEntityTooLarge, "lock_body_too_large")
}

func bodyOverLimit(r *rig) {
	r.hold(r.other, key) // it must be answered without a wait
	for _, template := range []string{"{json.sku}", template} {
		req := withBody("application/json", `{"sku":"7"}`)
		req.Body = http.MaxBytesReader(httptest.NewRecorder(), req.Body, 5)
		r.expectRefusal(template, req, http.StatusRequestEntityTooLarge, "lock_body_too_large")
	}
}

func bodyBroken(r *rig) {
	r.hold(r.other, key)
	for _, template := range []string{"{json.sku}", "{body}", template} {
		req := withBody("application/json", "")
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"sku`), iotest.ErrReader(io.ErrUnexpectedEOF)))
		r.expectRefusal(template, req, http.StatusBadRequest, "lock_key_invalid")
	}
	if _, err := r.guard.TryAcquire(context.WithoutCancel(r.Context()), key); !errors.Is(err, guard.ErrNotAcquired) {
		r.Errorf("the key is free: %v", err)
	}
}
