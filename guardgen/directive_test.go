package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
)

func TestADirectiveSaysKeysAndOptions(t *testing.T) {
	d, problems := parseDirective(
		"//guard:lock  stock:{from} + stock:x-{o.To.Sku()}-y\twait=0s ttl=30s hold=1m30s minhold=5s waiters=0 " +
			"permits=3 name=transfer func=Go fencing norenew failopen")
	if len(problems) > 0 {
		t.Fatal(*problems[0])
	}
	var keys []string
	for _, k := range d.keys {
		for _, p := range k.parts {
			keys = append(keys, fmt.Sprintf("%s<%s>%s", p.before, p.value, p.after))
		}
	}
	if want := []string{"stock<>", "<from>", "stock<>", "x-<o.To.Sku()>-y"}; !reflect.DeepEqual(keys, want) {
		t.Errorf("keys are %q, want %q", keys, want)
	}
	want := []option{
		{"WithMaxWait", time.Duration(0)},
		{"WithTTL", 30 * time.Second},
		{"WithMaxHold", 90 * time.Second},
		{"WithMinHold", 5 * time.Second},
		{"WithMaxWaiters", 0},
		{"WithPermits", 3},
		{"WithFencing", nil},
		{"WithoutRenewal", nil},
		{"WithFailOpen", nil},
	}
	if !reflect.DeepEqual(d.settings, want) || d.name != "transfer" || d.function != "Go" {
		t.Errorf("got %+v", d)
	}
}

// setters are the options of package guard by name, as generated code calls
// them.
var setters = map[string]func(value any) guard.Option{
	"WithTTL":        func(v any) guard.Option { return guard.WithTTL(v.(time.Duration)) },
	"WithMaxWait":    func(v any) guard.Option { return guard.WithMaxWait(v.(time.Duration)) },
	"WithMaxHold":    func(v any) guard.Option { return guard.WithMaxHold(v.(time.Duration)) },
	"WithMinHold":    func(v any) guard.Option { return guard.WithMinHold(v.(time.Duration)) },
	"WithMaxWaiters": func(v any) guard.Option { return guard.WithMaxWaiters(v.(int)) },
	"WithShared":     func(any) guard.Option { return guard.WithShared() },
	"WithPermits":    func(v any) guard.Option { return guard.WithPermits(v.(int)) },
	"WithFencing":    func(any) guard.Option { return guard.WithFencing() },
	"WithoutRenewal": func(any) guard.Option { return guard.WithoutRenewal() },
	"WithFailOpen":   func(any) guard.Option { return guard.WithFailOpen() },
}

// FuzzDirective checks that package guard accepts all settings that the parser
// accepts, and that a template makes the same key in a middleware. It also
// checks that each refusal names a place in the directive. Its seeds are in
// testdata/fuzz.
func FuzzDirective(f *testing.F) {
	for _, text := range []string{
		" stock:{sku} wait=200ms",
		" order:{o.ID} ttl=30s wait=0s fencing",
		" stock:{a} + stock:{b} hold=1m waiters=10 name=x norenew", // two keys, all options
		" doc:{id} shared failopen",                                // a mode
		" export:{id} permits=999998 fencing",                      // the other one, at its max
		" export:{id} permits=1 shared minhold=1s",                 // too much of it
		" {a}+{b}",                            // no spaces between keys
		" a +",                                // the second key is missing
		" sku:{req.GetSku()}:pre-{n}-post",    // a call, text around a placeholder
		" {a.b().c}",                          // a field of what a call returns
		" {a}{b}",                             // nothing between two placeholders
		" {a",                                 // not closed
		" a}",                                 // not opened
		" {id|int}",                           // a filter, which belongs to lockmw
		" a::b",                               // an empty part
		" 100%:%3A{a}%25 func=F",              // escapes are text
		" käse:{ö} name=ä",                    // other letters
		" \xff{a} name=\xff",                  // no UTF-8
		" a\u00a0b ttl=9223372036854775807ns", // a space of another kind, the longest time
		" a ttl=100.5ms waiters=99999999999",  // no whole milliseconds, too many waiters
		" a wait=1 wait=2 wait",               // no unit, twice, no value
		" wait=1s",                            // no key
		"s {a}",                               // another directive
		"",
	} {
		f.Add(text, "4711")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		d, problems := parseDirective(prefix + text)
		for _, p := range problems {
			if p.at < 0 || p.at > len(prefix+text) || p.text == "" {
				t.Fatalf("%q: %q at %d", text, p.text, p.at)
			}
		}
		if len(problems) > 0 {
			return
		}
		opts := []guard.Option{}
		for _, o := range d.settings {
			opts = append(opts, setters[o.setter](o.value))
		}
		if d.name != "" {
			opts = append(opts, guard.WithName(d.name))
		}
		(*guard.Guard)(nil).With(opts...) // panics if one is invalid
		if len(d.keys) == 0 {
			t.Fatalf("%q has no key", text)
		}
		shared := 0
		for _, k := range d.keys {
			if k.isConstant() {
				shared++
			}
			if !strings.HasPrefix((prefix + text)[k.at:], k.text) {
				t.Fatalf("%q: %q is not at %d", text, k.text, k.at)
			}
			sameKey(t, k, value)
		}
		if (shared > 0) != slices.Contains(strings.Fields(text), "one") {
			t.Fatalf("%q: %d keys without a placeholder", text, shared)
		}
	})
}

// sameKey checks that keyfunc reads a template as guardgen does, if it has no
// fields or methods.
func sameKey(t *testing.T, k keyTemplate, value string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	var parts []any
	for _, p := range k.parts {
		switch len(p.value) {
		case 0:
			parts = append(parts, p.before)
		case 1:
			if p.value[0].name == "body" {
				return // keyfunc reads the request's body there
			}
			keyfunc.SetPath(r, p.value[0].name, value)
			parts = append(parts, p.before+value+p.after)
		default:
			return
		}
	}
	if value == "" {
		return
	}
	parse, err := keyfunc.Parse(k.text)
	if err != nil {
		t.Fatalf("%q: %v", k.text, err)
	}
	if got, err := parse(r); err != nil || got != guard.Key(parts...) {
		t.Fatalf("%q: keyfunc makes %q, %v; want %q", k.text, got, err, guard.Key(parts...))
	}
}

func TestOptionsThatGuardRefusesAreRefused(t *testing.T) {
	for _, text := range []string{
		"wait=-1ns", "wait=1ns", "hold=1ns", "minhold=999us", "ttl=1s minhold=2s norenew",
		"ttl=0s", "ttl=99ms", "ttl=100.5ms", "ttl=-1s", "ttl=577h", "hold=-1s", "minhold=-1s", "waiters=-1", "name=",
		"permits=0", "permits=-1", "permits=999999", "permits=1.5", "permits=",
		"once=0s", "once=-1s", "once=1us", "once=1.5ms", "once=1h shared", "once=1h permits=2", "once=1h minhold=1s",
		"linger=1us", "linger=-1s", "linger=1s shared", "linger=1s permits=2", "linger=1s minhold=1s",
		"linger=1s norenew", "linger=1s once=1h", "linger=2501ms", "linger=2s ttl=10s", "ttl=100ms linger=51ms",
		"shared permits=3", "permits=1 shared", "shared fencing", "minhold=1s shared",
	} {
		if _, problems := parseDirective("//guard:lock k one " + text); len(problems) != 1 {
			t.Errorf("%s: %d problems, want 1", text, len(problems))
		}
	}
	for _, text := range []string{"linger=2500ms", "linger=1666ms ttl=10s", "ttl=100ms linger=50ms"} {
		if _, problems := parseDirective("//guard:lock k one " + text); len(problems) != 0 {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
