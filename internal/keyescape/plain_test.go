package keyescape

import (
	"strings"
	"testing"
)

func TestPlainKeepsWhatIsPlain(t *testing.T) {
	for _, key := range []string{"stock:42", "ключ", "\xff\xfe", strings.Repeat("x", MaxPlain)} {
		if got := Plain(key); got != key {
			t.Errorf("%q became %q", key, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Plain("stock:42") }); n != 0 {
		t.Errorf("%v allocations for a plain key", n)
	}
}

func TestWhatIsNoNameIsNoKey(t *testing.T) {
	for _, name := range []string{"%", "%2", "%7b", "%zz", "%41", "%probe:x", Plain(strings.Repeat("x", 201))} {
		if key, ok := Key(name); ok {
			t.Errorf("%q is read as %q", name, key)
		}
	}
}

func FuzzPlainIsInjectiveAndPlain(f *testing.F) {
	f.Add("a", "b")
	f.Add("{", "%7B")
	f.Add("%7B", "%257B")
	f.Add(strings.Repeat("x", 201), strings.Repeat("x", 200))
	f.Add(Plain(strings.Repeat("x", 201)), strings.Repeat("x", 201))
	f.Add("%probe:x", "\xff\x00")
	f.Fuzz(func(t *testing.T, a, b string) {
		pa, pb := Plain(a), Plain(b)
		if (a == b) != (pa == pb) {
			t.Errorf("%q is %q, %q is %q", a, pa, b, pb)
		}
		if strings.ContainsAny(pa, "{}\x00\n\x7f") || len(pa) > MaxPlain {
			t.Errorf("%q is %q", a, pa)
		}
		if key, ok := Key(pa); ok != !IsHash(pa) || ok && key != a {
			t.Errorf("%q is %q, which is read as %q, %v", a, pa, key, ok)
		}
		if strings.HasPrefix(pa, "%probe") || strings.HasPrefix(pa, "%s") && len(a) <= MaxPlain/3 {
			t.Errorf("%q is %q, which looks like something else", a, pa)
		}
	})
}
