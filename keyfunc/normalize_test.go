package keyfunc_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-lockguard/guard/keyfunc"
)

const id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

func TestOneThingHasOneSpelling(t *testing.T) {
	path := keyfunc.Path("v")
	for _, c := range []struct {
		name  string
		f     keyfunc.Func
		want  string
		given []string
	}{
		{"int", path.Int(), "7", []string{"7", "+7", "007", "+007"}},
		{"int negative", path.Int(), "-7", []string{"-7", "-07"}},
		{"int zero", path.Int(), "0", []string{"0", "-0", "+0", "000"}},
		{"int64 at its end", path.Int(), "-9223372036854775808", []string{"-9223372036854775808"}},
		{
			"uint64 at its end", path.Int(), "18446744073709551615",
			[]string{"18446744073709551615", "+18446744073709551615"},
		},
		{"uuid", path.UUID(), id, []string{
			id, strings.ToUpper(id), "urn:uuid:" + id, "URN:UUID:" + id, "{" + id + "}",
			strings.ReplaceAll(id, "-", ""),
		}},
		{"lower", path.Lower(), "käse", []string{"käse", "KÄSE", "Käse"}},
		{"trim", path.Trim(), "a b", []string{"a b", " a b", "a b\t\n", "\u00a0a b\u2003"}},
		{"maxlen", path.MaxLen(3), "abc", []string{"abc"}},
		{"nonzero", path.NonZero(), "007", []string{"007"}},
		{"nonzero of what is no number", path.NonZero(), "0x0", []string{"0x0"}},
		{"nonzero uuid", path.UUID().NonZero(), id, []string{id}},
		{"oneof", path.OneOf("a", "b"), "b", []string{"b"}},
		{"one after the other", path.Trim().Lower().OneOf("cart").MaxLen(4), "cart", []string{" CART "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, given := range c.given {
				r := request("")
				r.SetPathValue("v", given)
				if got, err := c.f(r); err != nil || got != c.want {
					t.Errorf("%q: got %q, %v; want %q", given, got, err, c.want)
				}
			}
		})
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	path := keyfunc.Path("v")
	for _, c := range []struct {
		name  string
		f     keyfunc.Func
		err   error
		given []string
	}{
		{"int", path.Int(), keyfunc.ErrInvalid, []string{
			"x", " 7", "7 ", "7.0", "7e0", "0x7", "1_000", "--7", "+-7", "+", "-", "７", "7\x00",
			"18446744073709551616", "-9223372036854775809", strings.Repeat("9", 1<<20),
		}},
		{"uuid", path.UUID(), keyfunc.ErrInvalid, []string{
			"x", id[1:], id + "0", "(" + id + ")", "{" + id, "urn:uuid:{" + id + "}", "uuid:urn:" + id,
			strings.Replace(id, "a", "g", 1),
			strings.Replace(id, "-", "0", 1), id[:8] + "--" + id[9:35], strings.Replace(id, "6", "\x00", 1),
			strings.Repeat("-", 36),
		}},
		{"lower of nothing", path.Lower(), keyfunc.ErrMissing, []string{""}},
		{"trim", path.Trim(), keyfunc.ErrMissing, []string{" ", "\t\r\n", "\u3000"}},
		{"nonzero", path.NonZero(), keyfunc.ErrMissing, []string{
			"0", "00", "+0", "-0", "00000000-0000-0000-0000-000000000000", "{00000000-0000-0000-0000-000000000000}",
			strings.Repeat("0", 32),
		}},
		{"nonzero after int", path.Int().NonZero(), keyfunc.ErrMissing, []string{"0", "-00"}},
		{"maxlen counts bytes", path.MaxLen(3), keyfunc.ErrInvalid, []string{"abcd", "ää", strings.Repeat("x", 1<<20)}},
		{"oneof", path.OneOf("a", "b"), keyfunc.ErrInvalid, []string{"A", "c", "a,b", "ab", " a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, given := range c.given {
				r := request("")
				keyfunc.SetPath(r, "v", given)
				if got, err := c.f(r); got != "" || !errors.Is(err, c.err) {
					t.Errorf("%.50q: got %q, %v; want %v", given, got, err, c.err)
				}
			}
		})
	}
}

func TestANormalizerPassesAnErrorOn(t *testing.T) {
	own := errors.New("own")
	if _, err := keyfunc.Func(func(*http.Request) (string,
		error,
	) {
		return "", own
	}).Int()(request("")); !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
}

func FuzzNormalizersHaveOneSpelling(f *testing.F) {
	for _, v := range []string{
		"7", "+007", "-0", id, "{" + id + "}", "İK", "\xff", " a ",
		"10000000000000000000",                 // more than an int64
		"0000a000-0aaa-00aX-0000-00a00aa000a0", // nearly a UUID
		"00000000000A0A000AX000A0A00000AA",     // ... without dashes
		"\xd0\xd0 ", "A\xcb0", "\u24af0",       // cut letters, a letter in a circle
	} {
		f.Add(v)
	}
	path := keyfunc.Path("v")
	all := map[string]keyfunc.Func{"int": path.Int(), "uuid": path.UUID(), "lower": path.Lower(), "trim": path.Trim()}
	f.Fuzz(func(t *testing.T, v string) {
		for name, norm := range all {
			r := request("")
			keyfunc.SetPath(r, "v", v)
			once, err := norm(r)
			if err != nil {
				continue
			}
			keyfunc.SetPath(r, "v", once)
			if twice, err := norm(r); err != nil || twice != once && utf8.ValidString(v) {
				t.Errorf("%s: %q gives %q, and that %q, %v", name, v, once, twice, err)
			}
			if want, err := strconv.Atoi(v); err == nil && name == "int" && once != strconv.Itoa(want) {
				t.Errorf("int: %q gives %q, want %d", v, once, want)
			}
		}
	})
}
