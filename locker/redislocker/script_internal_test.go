package redislocker

import (
	"testing"

	"github.com/go-lockguard/guard/internal/redistest"
)

// A prefix is part of a script's text, so no prefix may end its string early or
// read as something else.
func FuzzLuaReadsAStringAsItIs(f *testing.F) {
	for _, text := range []string{
		"", "guard:inbox:", `a"b`, `\`, `\"`, `\n`, "]]", "--", "%d", "été", "\xff\xfe", "\x00", "a\r\nb\t\x7f", "\\065", "1",
		`", true redis.call("flushall") --`, "\u2028",
	} {
		f.Add(text)
	}
	rdb := redistest.Client(f, redistest.Start(f).Addr)
	f.Fuzz(func(t *testing.T, text string) {
		// The string has a digit behind it, because an escape must end before.
		got, err := rdb.Eval(t.Context(), "local a, b = "+luaString(text)+", "+luaString(text+"7")+"\nreturn {a, b}",
			nil).StringSlice()
		if err != nil || len(got) != 2 || got[0] != text || got[1] != text+"7" {
			t.Errorf("Lua reads %s as %q, want %q (%v)", luaString(text), got, text, err)
		}
	})
}
