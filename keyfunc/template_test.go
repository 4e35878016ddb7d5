package keyfunc_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
)

func TestATemplateIsTheKeyOfItsParts(t *testing.T) {
	r := request("sku=4:2&filter[id]=7&id=%2B007&u={6BA7B810-9DAD-11D1-80B4-00C04FD430C8}",
		"X-Tenant", "acme", "X-Shop", " MAIN\t", "Cookie", "cart=c1")
	r.SetPathValue("sku", "100%:x")
	r.Body = io.NopCloser(strings.NewReader(`{"sku": "x:y", "n": 7}`))
	for template, want := range map[string]string{
		"stock:{sku}":                        guard.Key("stock", "100%:x"),
		"{sku}":                              guard.Key("100%:x"),
		"reindex":                            guard.Key("reindex"),
		"100%":                               guard.Key("100%"),
		"a:b:{sku}":                          guard.Key("a", "b", "100%:x"),
		"stock:{query.sku}":                  guard.Key("stock", "4:2"),
		"{header.x-tenant}:{sku}":            guard.Key("acme", "100%:x"),
		"stock:sku-{sku}":                    guard.Key("stock", "sku-100%:x"),
		"stock:{sku}.lock":                   guard.Key("stock", "100%:x.lock"),
		"a%{sku}%b:{query.filter[id]}":       guard.Key("a%100%:x%b", "7"),
		"käse:{header.X-Tenant}:{query.sku}": guard.Key("käse", "acme", "4:2"),
		"cart:{cookie.cart}":                 guard.Key("cart", "c1"),
		"{json.sku}:{json.n}":                guard.Key("x:y", "7"),
		"order:{query.id|int}:{header.X-Shop|trim|lower}": guard.Key("order", "7", "main"),
		"id-{query.id|int}":  guard.Key("id-7"),
		"{query.u|uuid}":     guard.Key("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
		"{body}":             guard.Key("59d54aa65ccb93cf6487c78c746257fe72811f8dc609ff84bff92793679084b2"),
		"a-{body|maxlen=64}": guard.Key("a-59d54aa65ccb93cf6487c78c746257fe72811f8dc609ff84bff92793679084b2"),
		"{sku|maxlen=6}:{cookie.cart|oneof=c0,c1}": guard.Key("100%:x", "c1"),
		"{cookie.cart|oneof=a:b,c1}":               guard.Key("c1"),
	} {
		f, err := keyfunc.Parse(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got, err := f(r); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", template, got, err, want)
		}
	}
}

// params are those of a router that does not pass them on.
type params map[string]string

func (p params) Param(name string) (value string, present bool) {
	value, present = p[name]
	return value, present
}

func TestATemplateTakesPathParametersFromAnAdapter(t *testing.T) {
	tmpl, err := keyfunc.ParseTemplate("stock:x-{sku|int}:{query.a}:{*}")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    params
		want string
		err  error
	}{
		{params{"sku": "007", "*": "a/b"}, "stock:x-7:1:a/b", nil},
		{params{"sku": "x", "*": "a/b"}, "", keyfunc.ErrInvalid},
		{params{"sku": "7", "*": ""}, "", keyfunc.ErrMissing},
		{params{"sku": "7"}, "", keyfunc.ErrNoSource},
	} {
		if got, err := tmpl.Key(request("a=1"), c.p); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v: got %q, %v; want %q, %v", c.p, got, err, c.want, c.err)
		}
	}
}

func TestATemplateReadsForms(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("sku=4:2"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if got, err := keyfunc.MustParse("stock:{form.sku}")(r); err != nil || got != guard.Key("stock", "4:2") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestATemplateWithoutItsValueGivesNoKey(t *testing.T) {
	for template, want := range map[string]error{
		"stock:{sku}":            keyfunc.ErrNoSource,
		"stock:sku-{sku}":        keyfunc.ErrNoSource,
		"stock:{query.sku}":      keyfunc.ErrMissing,
		"stock:a-{query.twice}":  keyfunc.ErrAmbiguous,
		"stock:{header.X-Empty}": keyfunc.ErrMissing,
		"stock:{cookie.cart}":    keyfunc.ErrMissing,
		"stock:{form.sku}":       keyfunc.ErrMissing,
		"stock:{body}":           keyfunc.ErrMissing,
		"{query.zero|nonzero}":   keyfunc.ErrMissing,
		"stock:{json.sku}":       keyfunc.ErrMissing,
		"{query.one|uuid}":       keyfunc.ErrInvalid,
		"{query.one|oneof=2,3}":  keyfunc.ErrInvalid,
	} {
		if key, err := keyfunc.MustParse(template)(request("twice=1&twice=2&one=1&zero=0", "X-Empty", "")); key != "" ||
			!errors.Is(err, want) {
			t.Errorf("%s: got %q, %v; want no key and %v", template, key, err, want)
		}
	}
}

func TestABadTemplateIsRefusedWithItsColumn(t *testing.T) {
	for template, want := range map[string]string{
		"":                    "column 1: empty part",
		":{sku}":              "column 1: empty part",
		"stock::{sku}":        "column 7: empty part",
		"stock:":              "column 7: empty part",
		"stock:{sku":          "column 7: '{' without '}'",
		"stock:sku}":          "column 10: '}' without '{'",
		"stock:{}":            `column 8: "" is not a name`,
		"stock:{query.}":      `column 8: "" is not a name`,
		"stock:{a}{b}":        "column 10: second placeholder in one part",
		"stock:{a}-{b}":       "column 11: second placeholder in one part",
		"stock:{{a}}":         `column 8: "{a" is not a name`,
		"stock:{id:[0-9]+}":   `column 8: "id:[0-9]+" is not a name`,
		"stock:{path...}":     `column 8: unknown source "path"`,
		"stock:{xml.sku}":     `column 8: unknown source "xml"`,
		"stock:{json.}":       `column 8: "" is not a name`,
		"stock:{id|}":         `column 11: unknown normalizer ""`,
		"stock:{id|hex}":      `column 11: unknown normalizer "hex"`,
		"stock:{id |int}":     `column 8: "id " is not a name`,
		"stock:{id| int}":     `column 11: unknown normalizer " int"`,
		"stock:{id|trim|INT}": `column 16: unknown normalizer "INT"`,
		"stock:{body}{a}":     "column 13: second placeholder in one part",
		"stock:{body.sku}":    `column 8: unknown source "body"`,
		"stock:{id|nonzero=}": "column 11: nonzero takes no argument",
		"stock:{id|int=64}":   "column 11: int takes no argument",
		"stock:{id|lower=}":   "column 11: lower takes no argument",
		"stock:{id|maxlen}":   "column 11: want maxlen=n",
		"stock:{id|maxlen=0}": "column 11: want maxlen=n",
		"stock:{id|maxlen=x}": "column 11: want maxlen=n",
		"stock:{id|oneof}":    "column 11: want oneof=a,b",
		"stock:{id|oneof=a,}": "column 11: want oneof=a,b",
		"stock:{id|oneof={}":  "column 11: want oneof=a,b",
		"käse:{id|trim|hex}":  `column 15: unknown normalizer "hex"`,
		"käse:{header.X Y}":   `column 7: "X Y" is not a name`,
		"stock:{query.a\x00}": `column 8: "a\x00" is not a name`,
		"stock:${sku}":        `column 7: "${" is text in a template: write {sku}`,
		"stock:$sku:{id}":     `column 7: "$sku" is text in a template: write {sku}`,
		"{id}-$_sku":          `column 6: "$_sku" is text in a template: write {_sku}`,
		"stock:<sku>:{id}":    `column 7: "<sku>" is text in a template: write {sku}`,
		"stock:%s:{id}":       `column 7: "%s" is text in a template: write {name}`,
		"stock:{sku}-%d":      `column 13: "%d" is text in a template: write {name}`,
		"stock/:sku":          `column 6: ":sku" is text in a template: write {sku}`,
		"käse/:sku:{id}":      `column 5: ":sku" is text in a template: write {sku}`,
		"files/*path":         `column 6: "*path" is text in a template: write {path}`,
		"stock:#{sku}":        `column 7: "#{" is text in a template: write {sku}`,
		"#{sku}":              `column 1: "#{" is text in a template: write {sku}`,
		"stock-#sku:{id}":     `column 7: "#sku" is text in a template: write {sku}`,
		"stock：{sku}":         `column 6: "：" is text in a template: write :`,
		"库存：{sku}":            `column 3: "：" is text in a template: write :`,
		"{sku}：{id}":          `column 6: "：" is text in a template: write :`,
		"stock:｛sku｝":         `column 7: "｛" is text in a template: write {`,
		"stock:{sku}｝":        `column 12: "｝" is text in a template: write }`,
	} {
		if _, err := keyfunc.Parse(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", template, err, want)
		}
	}
}

func TestTextThatOnlyLooksLikeAPlaceholderIsText(t *testing.T) {
	for _, template := range []string{
		"stock/{sku}", "/stock/{sku}/buy", "100%:{sku}", "a%:b%{sku}", "%discount:{sku}", "$:{sku}", "$5:{sku}",
		"a$:{sku}", "<:{sku}",
		"<b c>:{sku}", "a</>b:{sku}", "*:{sku}", "a/:{sku}", "a/*:{sku}", "a%2F%2d:{sku}", "%%:{sku}",
		"-%+v-:{sku}", "käse:{sku}", "order#{sku}", "a#b:{sku}", "#:{sku}", "#7:{sku}", "订单#{sku}", "库存:{sku}",
	} {
		if _, err := keyfunc.Parse(template); err != nil {
			t.Errorf("%s: %v", template, err)
		}
	}
}

// everywhere is a request with v as the only value of all names in every
// source.
func everywhere(v string, names ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	query := url.Values{}
	for _, name := range names {
		r.SetPathValue(name, v)
		query.Set(name, v)
		r.Header.Set(name, v)
	}
	r.URL.RawQuery = query.Encode()
	return r
}

func FuzzKeyAgrees(f *testing.F) {
	f.Add("stock", "42", "acme")
	f.Add("a:b", "%3A", ":")
	f.Add("%", "%25", "%:%")
	f.Add("{", "}", "\x00")
	f.Add("\xff", "käse", " ")
	f.Add("", "x", "y")
	f.Add("order", "+007", "-0")
	f.Add("0000000000000000000%", "%000000000000", "0")             // an escape that is cut, on both sides
	f.Add("0:"+strings.Repeat("0", 300), "%00", "%")                // longer than a plain key
	f.Add("0", strings.Repeat("0", 300)+"  0 0 00 !", "0")          // ... by its value
	f.Add("0", strings.Repeat("!", 16), strings.Repeat(" ", 8)+"%") // only characters that are escaped
	f.Fuzz(func(t *testing.T, text, sku, tenant string) {
		if text == "" {
			return // Static refuses it
		}
		r := everywhere(sku, "sku")
		r.Header.Set("X-Tenant", tenant)
		agree := func(f keyfunc.Func, want string) {
			t.Helper()
			got, err := f(r)
			if got != want || (err == nil) == (want == "") {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
		}
		agree(keyfunc.MustParse("stock:{sku}"), guard.Key("stock", sku))
		agree(keyfunc.MustParse("{query.sku}"), guard.Key(sku))
		agree(keyfunc.MustParse("{header.X-Tenant}:{sku}"), guard.Key(tenant, sku))
		agree(keyfunc.Join(keyfunc.Static(text), keyfunc.Header("sku"), keyfunc.Path("sku")), guard.Key(text, sku, sku))
		if n, err := strconv.ParseInt(sku, 10, 64); err == nil {
			agree(keyfunc.MustParse("{sku|int}"), guard.Key(n))
			agree(keyfunc.Join(keyfunc.Path("sku").Int(),
				keyfunc.Header("X-Tenant").MaxLen(1<<20)), guard.Key(n, tenant))
		}
		if sku != "" {
			agree(keyfunc.MustParse("a%:pre%{sku}-post"), guard.Key("a%", "pre%"+sku+"-post"))
		}
		if !strings.ContainsAny(text, ":{}") {
			if f, err := keyfunc.Parse(text + ":{sku}"); err == nil { // it is no placeholder of another language
				agree(f, guard.Key(text, sku))
			}
		}
	})
}

func FuzzJoinIsInjective(f *testing.F) {
	for _, s := range []string{
		"a:b\x00c", "a\x00b:c", "a\x00b\x00c", "a%3Ab", "a\x00%", "%\x00a", "%253A", ":\x00:", "::",
		"%\x00%\x00%", "0%:0\x00%0:\x00%00", strings.Repeat("%", 64), strings.Repeat("0\x00", 20) + "0",
	} {
		f.Add(s, "a:b:c")
		f.Add(s, "a\x00b\x00c")
	}
	join := func(parts []string) string {
		var funcs []keyfunc.Func
		for _, part := range parts {
			if part == "" {
				return ""
			}
			funcs = append(funcs, keyfunc.Static(part))
		}
		key, _ := keyfunc.Join(funcs...)(request(""))
		return key
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		as, bs := strings.Split(a, "\x00"), strings.Split(b, "\x00")
		x, y := join(as), join(bs)
		if x != "" && y != "" && (x == y) != slices.Equal(as, bs) {
			t.Fatalf("%q and %q are %q and %q", as, bs, x, y)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, template := range []string{
		"stock:{sku}", "{sku}", "a:b:c", "a{query.b}c:{header.X-D}", "100%", "{a}{b}", "{", "}", ":",
		"", "{a.b}", "{query.}",
		"{id|int}", "{json.a|trim|lower}:{form.b}", "{a|maxlen=3}", "{a|oneof=b,c}", "{id:[0-9]+}", "ä:{ö}", "\xff{a}",
		"{query.a\u00a0b}", "a::b", "{query.a.b[c]}",
		"{json.0|trim|000}", "0{000}", "{query.000[0]}", // digits for names
		"{\t", "{\v}", "{\xff\xff}", "{\ua640\xa4}", ":\xf6\a\x1a\xe9", // control characters, no UTF-8
	} {
		f.Add(template, "v", "w")
		f.Add(template, "%", ":")
	}
	placeholder := regexp.MustCompile(`\{(?:query\.|header\.)?([^{}]*)\}`)
	special := regexp.MustCompile(`\{(body\}|cookie\.|form\.|json\.|[^{}]*\|)`) // not all values pass
	f.Fuzz(func(t *testing.T, template, v, w string) {
		derive, err := keyfunc.Parse(template)
		if err != nil {
			if !strings.Contains(err.Error(), ", column ") {
				t.Fatalf("%v names no column", err)
			}
			return
		}
		if v == "" || w == "" || special.MatchString(template) {
			_, _ = derive(everywhere(v)) // must not panic
			return
		}
		var names []string
		for _, match := range placeholder.FindAllStringSubmatch(template, -1) {
			names = append(names, match[1])
		}
		key := func(v string) string {
			t.Helper()
			got, err := derive(everywhere(v, names...))
			if err != nil {
				t.Fatalf("%q accepts no value: %v", template, err)
			}
			var parts []any // an independent reading of the template
			for part := range strings.SplitSeq(template, ":") {
				parts = append(parts, placeholder.ReplaceAllLiteralString(part, v))
			}
			if want := guard.Key(parts...); got != want {
				t.Fatalf("%q with %q: got %q, want %q", template, v, got, want)
			}
			return got
		}
		if same := key(v) == key(w); len(names) > 0 && same != (v == w) {
			t.Fatalf("%q: %q and %q are one key", template, v, w)
		}
	})
}
