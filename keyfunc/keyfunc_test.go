package keyfunc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/keyfunc"
)

// request is GET /?query. The headers are given as name, value, name, value.
func request(query string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL.RawQuery = query
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

type userKey struct{}

func user(ctx context.Context) (string, bool) {
	v, found := ctx.Value(userKey{}).(string)
	return v, found
}

func as(v string) *http.Request {
	return request("").WithContext(context.WithValue(context.Background(), userKey{}, v))
}

func TestAValueMustBeThereExactlyOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		f    keyfunc.Func
		r    *http.Request
		want string
		err  error
	}{
		{"query", keyfunc.Query("sku"), request("a=1&sku=x%3Ay"), "x:y", nil},
		{"query absent", keyfunc.Query("sku"), request("SKU=1"), "", keyfunc.ErrMissing},
		{"query empty", keyfunc.Query("sku"), request("sku="), "", keyfunc.ErrMissing},
		{"query repeated", keyfunc.Query("sku"), request("sku=1&sku=2"), "", keyfunc.ErrAmbiguous},
		{"query repeated, the same", keyfunc.Query("sku"), request("sku=1&sku=1"), "", keyfunc.ErrAmbiguous},
		{"query repeated, once empty", keyfunc.Query("sku"), request("sku=&sku=1"), "", keyfunc.ErrAmbiguous},
		{"query with a bad escape elsewhere", keyfunc.Query("sku"), request("sku=1&b=%zz"), "", keyfunc.ErrInvalid},
		{"query with a semicolon", keyfunc.Query("sku"), request("sku=1;sku=2"), "", keyfunc.ErrInvalid},
		{"header", keyfunc.Header("x-tenant"), request("", "X-Tenant", "acme"), "acme", nil},
		{"header absent", keyfunc.Header("X-Tenant"), request(""), "", keyfunc.ErrMissing},
		{"header empty", keyfunc.Header("X-Tenant"), request("", "X-Tenant", ""), "", keyfunc.ErrMissing},
		{
			"header repeated", keyfunc.Header("X-Tenant"), request("", "X-Tenant", "a", "X-Tenant", "b"), "",
			keyfunc.ErrAmbiguous,
		},
		{"cookie", keyfunc.Cookie("cart"), request("", "Cookie", `a=1; cart="c 1"`), "c 1", nil},
		{"cookie, as sent", keyfunc.Cookie("cart"), request("", "Cookie", "cart=%61"), "%61", nil},
		{"cookie absent", keyfunc.Cookie("cart"), request("", "Cookie", "Cart=1"), "", keyfunc.ErrMissing},
		{"cookie empty", keyfunc.Cookie("cart"), request("", "Cookie", "cart="), "", keyfunc.ErrMissing},
		{"cookie repeated", keyfunc.Cookie("cart"), request("", "Cookie", "cart=1; cart=1"), "", keyfunc.ErrAmbiguous},
		{
			"cookie repeated in another header", keyfunc.Cookie("cart"),
			request("", "Cookie", "cart=1", "Cookie", "cart=2"), "", keyfunc.ErrAmbiguous,
		},
		{"context", keyfunc.FromContext(user), as("u:1"), "u:1", nil},
		{"context without", keyfunc.FromContext(user), request(""), "", keyfunc.ErrNoSource},
		{"context empty", keyfunc.FromContext(user), as(""), "", keyfunc.ErrNoSource},
		{"static", keyfunc.Static("stock"), request(""), "stock", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.f(c.r)
			if got != c.want || !errors.Is(err, c.err) {
				t.Fatalf("got %q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestPathTellsAnEmptyParameterFromOneThatTheRouteDoesNotHave(t *testing.T) {
	var got string
	var err error
	handler := func(name string) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, err = keyfunc.Path(name)(r) })
	}
	mux := http.NewServeMux()
	mux.Handle("GET /sku/{sku}/buy", handler("sku"))
	mux.Handle("GET /files/{path...}", handler("path"))
	mux.Handle("GET /other/{skuid}/{$}", handler("sku"))

	for _, c := range []struct {
		name, path string
		via        http.Handler
		want       string
		err        error
	}{
		{"present", "/sku/a%2Fb/buy", mux, "a/b", nil},
		{"present, the rest of the path", "/files/a/b", mux, "a/b", nil},
		{"empty", "/files/", mux, "", keyfunc.ErrMissing},
		{"not in the pattern", "/other/1/", mux, "", keyfunc.ErrNoSource},
		{"before the router", "/sku/1/buy", handler("sku"), "", keyfunc.ErrNoSource},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err = "", errors.New("the handler was not called")
			c.via.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, c.path, nil))
			if got != c.want || !errors.Is(err, c.err) {
				t.Fatalf("got %q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestSetPathMakesAnEmptyParameterPresent(t *testing.T) {
	r := request("")
	sku := keyfunc.Path("sku")
	expect := func(want string, wantErr error) {
		t.Helper()
		if got, err := sku(r); got != want || !errors.Is(err, wantErr) {
			t.Fatalf("got %q, %v; want %q, %v", got, err, want, wantErr)
		}
	}
	expect("", keyfunc.ErrNoSource)
	keyfunc.SetPath(r, "sku", "")
	expect("", keyfunc.ErrMissing)
	keyfunc.SetPath(r, "sku", "42")
	expect("42", nil)
	keyfunc.SetPath(r, "sku", "")
	expect("", keyfunc.ErrMissing)
}

func TestPathReadsTheWildcardsOfChi(t *testing.T) {
	r := request("")
	r.Pattern = "/{tenant:[a-z]*}/sku/{sku}"
	for _, name := range []string{"tenant", "sku"} {
		if _, err := keyfunc.Path(name)(r); !errors.Is(err, keyfunc.ErrMissing) {
			t.Errorf("%s: %v, want ErrMissing", name, err)
		}
	}
	// and echo v5
	for pattern, name := range map[string]string{"/files/*": "*", "/stock/:sku": "sku", "/stock/:sku/buy": "sku"} {
		r.Pattern = pattern
		if _, err := keyfunc.Path(name)(r); !errors.Is(err, keyfunc.ErrMissing) {
			t.Errorf("%s: %v, want ErrMissing", pattern, err)
		}
	}
	if _, err := keyfunc.Path("ten")(r); !errors.Is(err, keyfunc.ErrNoSource) {
		t.Errorf("ten: %v, want ErrNoSource", err)
	}
}

func TestJoinIsGuardKey(t *testing.T) {
	r := request("a=x:y%25&b=z", "X-Tenant", "acme:eu")
	key, err := keyfunc.Join(keyfunc.Static("a:b"), keyfunc.Query("a"), keyfunc.Query("b"),
		keyfunc.Header("X-Tenant"))(r)
	if want := guard.Key("a:b", "x:y%", "z", "acme:eu"); err != nil || key != want {
		t.Fatalf("got %q, %v; want %q", key, err, want)
	}
}

func TestJoinNeverMakesAKeyWithoutAValue(t *testing.T) {
	own := errors.New("own")
	for _, c := range []struct {
		name string
		part keyfunc.Func
		err  error
	}{
		{"missing", keyfunc.Query("sku"), keyfunc.ErrMissing},
		{"an own Func's error unchanged", func(*http.Request) (string, error) { return "", own }, own},
		{
			"an own Func without value or error",
			func(*http.Request) (string, error) { return "", nil }, keyfunc.ErrMissing,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if key, err := keyfunc.Join(keyfunc.Static("stock"), c.part)(request("")); key != "" ||
				!errors.Is(err, c.err) {
				t.Fatalf("got %q, %v; want no key and %v", key, err, c.err)
			}
		})
	}
}

func TestErrorsNameTheSourceAndNeverTheValue(t *testing.T) {
	const secret = "s3cret"
	for want, f := range map[string]keyfunc.Func{
		`keyfunc: malformed: query "sku"`:                  keyfunc.Query("sku"),
		`keyfunc: given more than once: header "X-Tenant"`: keyfunc.Header("X-Tenant"),
		`keyfunc: no such source: path "sku"`:              keyfunc.Path("sku"),
		`keyfunc: missing: part "2"`: keyfunc.Join(keyfunc.Static("a"),
			func(*http.Request) (string, error) { return "", nil }),
		`keyfunc: given more than once: cookie "cart"`: keyfunc.Cookie("cart"),
		`keyfunc: missing: form "other"`:               keyfunc.Form("other").OneOf("x"),
		`keyfunc: no such source: context`: keyfunc.FromContext(func(context.Context) (string,
			bool,
		) {
			return secret, false
		}),
		`keyfunc: malformed: json "sku"`:     keyfunc.JSON("sku"),
		`keyfunc: malformed: header "X-One"`: keyfunc.Header("X-One").Trim().Int(),
		`keyfunc: malformed: path "one"`:     keyfunc.MustParse("a:b-{one|uuid}"),
		`keyfunc: malformed: value`: keyfunc.Func(func(r *http.Request) (string,
			error,
		) {
			return r.Cookies()[0].Value, nil
		}).MaxLen(1),
		`keyfunc: missing: header "X-Absent"`: keyfunc.MustParse("a:b-{header.X-Absent}"),
	} {
		r := request("sku="+secret+"&"+secret+"=%zz", "X-Tenant", secret, "X-Tenant", secret, "X-One", secret,
			"Cookie", "cart="+secret+"; cart="+secret)
		r.SetPathValue("one", secret)
		r.Body = io.NopCloser(strings.NewReader(`{"sku": ` + secret + `}`))
		if strings.Contains(want, ": form") {
			r.URL.RawQuery = ""
		}
		_, err := f(r)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		var detail *keyfunc.Error
		if !errors.As(err, &detail) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v is no *Error, or says the value", err)
		}
	}
}

func TestStartUpMistakesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"Static of nothing": func() { keyfunc.Static("") },
		"FromContext(nil)":  func() { keyfunc.FromContext(nil) },
		"a nil Func":        func() { keyfunc.Func(nil).Int() },
		"MaxLen of 0":       func() { keyfunc.Path("id").MaxLen(0) },
		"OneOf of nothing":  func() { keyfunc.Path("id").OneOf() },
		"Join of nothing":   func() { keyfunc.Join() },
		"Join of nil":       func() { keyfunc.Join(keyfunc.Static("a"), nil) },
		"bad template":      func() { keyfunc.MustParse("{") },
	} {
		testguard.Panics(t, name, f)
	}
}

func TestKeyfuncImportsOnlyTheStandardLibraryAndLeaves(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{range .Deps}}{{.}}\n{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		host, _, _ := strings.Cut(dep, "/")
		ours := strings.HasSuffix(dep, "/internal/keyescape") || strings.HasSuffix(dep, "/internal/readahead")
		vendored := host == "vendor" // the standard library's own
		if strings.Contains(host, ".") && !ours && !vendored {
			t.Errorf("keyfunc depends on %s", dep)
		}
	}
}
