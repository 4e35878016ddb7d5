package guard_test

import (
	"context"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
)

type (
	sku    string
	userID uint32
)

func TestKey_SpellsEachPartInOneWay(t *testing.T) {
	addr := netip.MustParseAddr("::1")
	var noAddr *netip.Addr
	for want, got := range map[string]string{
		"stock:42":         guard.Key("stock", 42),
		"a%3Ab:c":          guard.Key("a:b", "c"),
		"a:b%3Ac":          guard.Key("a", "b:c"),
		"100%25:true":      guard.Key("100%", true),
		"%253A":            guard.Key("%3A"),
		"x:-7:8:9:10":      guard.Key(sku("x"), int8(-7), uint64(8), userID(9), int64(10)),
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

func TestKey_AMomentIsOnePartInAnyZone(t *testing.T) {
	read := time.Now() // with a monotonic reading
	stored := read.Round(0)
	east := stored.In(time.FixedZone("east", 3*60*60))
	want := guard.Key("slot", read)
	for name, same := range map[string]any{
		"without the monotonic reading": stored, "in another zone": east,
		"by pointer": &east,
	} {
		if got := guard.Key("slot", same); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	at := time.Date(2026, 3, 1, 12, 30, 0, 500, time.FixedZone("west", -60*60))
	if got := guard.Key(at); got != "2026-03-01T13%3A30%3A00.0000005Z" {
		t.Errorf("got %q", got)
	}
	if guard.Key(at) == guard.Key(at.Add(1)) {
		t.Error("two moments are one key")
	}
	if got := guard.Key(time.Time{}); got != "" {
		t.Errorf("no time: got %q, want none", got)
	}
}

// both spells itself for people and for machines.
type both struct{}

func (both) String() string               { return "for people" }
func (both) MarshalText() ([]byte, error) { return []byte("exact"), nil }

// message looks like a generated protobuf message. Its String is unstable on
// purpose.
type message struct{}

func (*message) ProtoMessage()  {}
func (*message) String() string { return "id:7" }

func TestKey_APartIsSpelledByItsIdentityOrRefused(t *testing.T) {
	page, err := url.Parse("https://example.com/a")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		part any
		want string
	}{
		"MarshalText before String": {both{}, "exact"},
		"URL by pointer":            {page, "https%3A//example.com/a"},
		"URL":                       {*page, ""}, // has no String
		"big integer":               {big.NewInt(7), "7"},
		"big fraction":              {big.NewRat(2, 4), "1/2"},
		"big float":                 {big.NewFloat(0.1), ""}, // one number, another text for each precision
		"address of 4 bytes":        {net.IPv4(127, 0, 0, 1).To4(), "127.0.0.1"},
		"address of 16 bytes":       {net.IPv4(127, 0, 0, 1), "127.0.0.1"},
		"no address":                {netip.Addr{}, ""},
		"nil slice with a String":   {net.IP(nil), ""},
		"nil mask with a String":    {net.IPMask(nil), ""},
		"duration":                  {90 * time.Second, "1m30s"},
		"weekday":                   {time.Friday, "Friday"},
		"context":                   {t.Context(), ""},
		"derived context":           {context.WithValue(t.Context(), both{}, 1), ""},
		"reflected value":           {reflect.ValueOf(7), ""},
		"reflected type":            {reflect.TypeFor[sku](), ""},
		"protobuf message":          {&message{}, ""},
		"error":                     {context.Canceled, ""},
	} {
		if got := guard.Key(c.part); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// FuzzKey_IsInjective reads the parts back from the key. So different parts give
// different keys.
func FuzzKey_IsInjective(f *testing.F) {
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
