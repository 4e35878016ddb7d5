package keyfunc_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
)

// cart returns a request with a JSON body.
func cart(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-User", "ann")
	return r
}

// numbers returns n different integers as the elements of a JSON list.
func numbers(n int) string {
	var s []string
	for i := range n {
		s = append(s, strconv.Itoa(i))
	}
	return strings.Join(s, ",")
}

func TestAListGivesAKeyForEachElement(t *testing.T) {
	skus := []string{"stock:{json.items[].sku}"}
	for _, c := range []struct {
		templates []string
		body      string
		want      []string
		err       error
	}{
		{skus, `{"items": [{"sku": "b", "n": 1}, {"sku": "a"}, {"n": 2, "sku": "b"}]}`, []string{"stock:b", "stock:a"}, nil},
		{[]string{"s:{json.ids[]|int}"}, `{"ids": [7, "007", 8]}`, []string{"s:7", "s:8"}, nil},
		{
			[]string{"{json.shop}:x-{json.items[].sku}:{json.items[].size|lower}", "user:{header.X-User}"},
			`{"shop": "m:1", "items": [{"sku": 1, "size": "L"}, {"sku": 1, "size": "m"}]}`,
			[]string{guard.Key("m:1", "x-1", "l"), guard.Key("m:1", "x-1", "m"), "user:ann"},
			nil,
		},
		{[]string{"n:{json.n[]}"}, `{"n": [` + numbers(64) + `, 3]}`, nil, nil},
		{[]string{"n:{json.n[]}"}, `{"n": [` + numbers(65) + `]}`, nil, keyfunc.ErrTooManyKeys},
		{[]string{"n:{json.n[]}", "user:{header.X-User}"}, `{"n": [` + numbers(64) + `]}`, nil, keyfunc.ErrTooManyKeys},
		{skus, `{}`, nil, keyfunc.ErrMissing},
		{skus, ``, nil, keyfunc.ErrMissing},
		{skus, `{"items": null}`, nil, keyfunc.ErrMissing},
		{skus, `{"items": []}`, nil, keyfunc.ErrMissing},
		{skus, `{"items": {"sku": "a"}}`, nil, keyfunc.ErrInvalid},
		{skus, `{"items": "a"}`, nil, keyfunc.ErrInvalid},
		{skus, `{"items": [{"sku": "a"}`, nil, keyfunc.ErrInvalid},
		{skus, `{"items": [{"sku": "a"}, {}]}`, nil, keyfunc.ErrMissing},
		{skus, `{"items": [{"sku": "a"}, null]}`, nil, keyfunc.ErrMissing},
		{skus, `{"items": [{"sku": ""}]}`, nil, keyfunc.ErrMissing},
		{skus, `{"items": ["a"]}`, nil, keyfunc.ErrInvalid},
		{skus, `{"items": [[{"sku": "a"}]]}`, nil, keyfunc.ErrInvalid},
		{skus, `{"items": [{"sku": ["a"]}]}`, nil, keyfunc.ErrInvalid},
		{skus, `{"items": [{"sku": 1.5}]}`, nil, keyfunc.ErrInvalid},
		{skus, `{"items": [{"sku": "a", "SKU": "b"}]}`, nil, keyfunc.ErrAmbiguous},
		{skus, `{"items": [], "items": [{"sku": "a"}]}`, nil, keyfunc.ErrAmbiguous},
		{[]string{"s:{json.ids[]}"}, `{"ids": [{"sku": "a"}]}`, nil, keyfunc.ErrInvalid},
		{[]string{"s:{json.ids[]|int}"}, `{"ids": ["x"]}`, nil, keyfunc.ErrInvalid},
	} {
		got, err := keyfunc.MustParseKeys(c.templates...)(cart(c.body))
		if !errors.Is(err, c.err) || c.err != nil && got != nil || c.want != nil && !slices.Equal(got, c.want) {
			t.Errorf("%s, %.60s: got %.60q, %v; want %q, %v", c.templates, c.body, got, err, c.want, c.err)
		}
	}
}

func TestAListOfAnotherTypeNamesItself(t *testing.T) {
	keys := keyfunc.MustParseKeys("stock:{json.items[].sku}")
	r := cart(`{"items": [{"sku": "a"}]}`)
	r.Header.Set("Content-Type", "text/plain")
	_, err := keys(r)
	var at *keyfunc.Error
	if !errors.Is(err, keyfunc.ErrMediaType) || !errors.As(err, &at) || at.Source != "json" || at.Name != "items[]" {
		t.Errorf("got %v", err)
	}
	_, err = keys(cart(`{"items": [{"sku": "a"}, {}]}`))
	if !errors.As(err, &at) || at.Name != "items[].sku" {
		t.Errorf("got %v", err)
	}
}

func TestABadListIsRefusedWithItsColumn(t *testing.T) {
	for template, want := range map[string]string{
		"stock:{json.[].sku}":             "column 8: the list before [] has no name",
		"stock:{json.a[].b[].c}":          "column 8: a list in a list",
		"stock:{json.a[]b}":               "column 8: want a dot",
		"stock:{json.a[].}":               "column 8: want a dot",
		"käse:x-{json.a[].b}:{json.c[]}":  "column 22: a second list, want elements of \"a[]\" alone",
		"stock:{json.items[].sku|hex}":    "column 25: unknown normalizer",
		"stock:{json.items[].sku":         "column 7: '{' without '}'",
		"stock:{json.items[].sku}{query}": "column 25: second placeholder",
	} {
		if _, err := keyfunc.ParseKeys(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", template, err, want)
		}
	}
	_, err := keyfunc.Parse("stock:{json.items[].sku}")
	if err == nil || !strings.Contains(err.Error(), "column 8: a list gives several keys: use Keys or ParseKeys") {
		t.Errorf("got %v", err)
	}
	if _, err := keyfunc.ParseKeys(); err == nil {
		t.Error("no templates are not refused")
	}
}

// reads are path parameters that count how often they are read.
type reads int

func (n *reads) Param(string) (value string, present bool) {
	*n++
	return "m", true
}

// A list of thousands of elements must not have the rest of the request read
// once for each.
func TestAListReadsSharedValuesOnce(t *testing.T) {
	templates, err := keyfunc.ParseTemplates("{shop}:{json.skus[]}")
	if err != nil {
		t.Fatal(err)
	}
	var n reads
	got, err := templates.Keys(cart(`{"skus": [1, 2, 3]}`), &n)
	if err != nil || n != 1 || !slices.Equal(got, []string{"m:1", "m:2", "m:3"}) {
		t.Errorf("got %q, %v by %d reads, want one", got, err, n)
	}
}

func FuzzParseKeys(f *testing.F) {
	for _, template := range []string{
		"stock:{json.items[].sku}", "{json.a}:{json.b[]|int}", "{json.b[].c}:{json.b[].d|lower}:{json.a}", "{json.[]}",
	} {
		f.Add(template, []byte(`{"items": [{"sku": "x:y"}, {"sku": 7}], "a": 1, "b": ["1", 2, {"c": 1, "d": "D"}]}`))
	}
	f.Fuzz(func(t *testing.T, template string, body []byte) {
		several, err := keyfunc.ParseKeys(template)
		single, errSingle := keyfunc.Parse(template)
		if err != nil {
			if errSingle == nil {
				t.Fatalf("%q: Parse takes it, ParseKeys does not: %v", template, err)
			}
			if !strings.Contains(err.Error(), "column ") {
				t.Fatalf("%q: %v names no column", template, err)
			}
			return
		}
		keys, err := several(cart(string(body)))
		if errSingle == nil { // no list: the same key or error
			key, err1 := single(cart(string(body)))
			if (err1 == nil) != (err == nil) || err == nil && !slices.Equal(keys, []string{key}) {
				t.Fatalf("%q: got %q, %v; Parse gives %q, %v", template, keys, err, key, err1)
			}
		}
		if (err == nil) != (len(keys) > 0) || len(keys) > 64 || slices.Contains(keys, "") {
			t.Fatalf("%q: got %q, %v", template, keys, err)
		}
		for i, key := range keys {
			if slices.Contains(keys[i+1:], key) {
				t.Fatalf("%q: %q twice", template, key)
			}
		}
	})
}
