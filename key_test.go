package guard_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/go-lockguard/guard"
)

type (
	sku    string
	userID uint32
)

func TestKeySpellsEachPartInOneWay(t *testing.T) {
	addr := netip.MustParseAddr("::1")
	var noAddr *netip.Addr
	for want, got := range map[string]string{
		"stock:42":         guard.Key("stock", 42),
		"a%3Ab:c":          guard.Key("a:b", "c"),
		"a:b%3Ac":          guard.Key("a", "b:c"),
		"100%25:true":      guard.Key("100%", true),
		"%253A":            guard.Key("%3A"),
		"x:-7:8:9":         guard.Key(sku("x"), int8(-7), uint64(8), userID(9)),
		"ip:%3A%3A1":       guard.Key("ip", addr),
		"ip:%3A%3A1:again": guard.Key("ip", &addr, "again"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, got := range map[string]string{
		"no part": guard.Key(), "empty": guard.Key(""), "empty in the middle": guard.Key("a", "", "b"),
		"nil": guard.Key(nil), "nil pointer": guard.Key(noAddr), "float": guard.Key(1.5),
		"slice": guard.Key([]byte("x")), "map": guard.Key(map[string]int{}), "func": guard.Key(func() {}),
		"pointer": guard.Key(new(int)), "struct": guard.Key(struct{}{}),
	} {
		if got != "" {
			t.Errorf("%s: got %q, want none", name, got)
		}
	}
}

// FuzzKeyIsInjective: parts can be read back from the key, so different parts give different keys.
func FuzzKeyIsInjective(f *testing.F) {
	for _, s := range []string{"a", "a:b", "%", "%3A", "%25", "::", "{", "\x00", "é", "a%3Ab"} {
		f.Add(s, "b")
		f.Add("b", s)
	}
	unescape := strings.NewReplacer("%25", "%", "%3A", ":")
	f.Fuzz(func(t *testing.T, a, b string) {
		key := guard.Key(a, b)
		if a == "" || b == "" {
			if key != "" {
				t.Fatalf("Key(%q, %q) = %q", a, b, key)
			}
			return
		}
		x, y, ok := strings.Cut(key, ":")
		if !ok || unescape.Replace(x) != a || unescape.Replace(y) != b {
			t.Fatalf("Key(%q, %q) = %q", a, b, key)
		}
	})
}
