package redislocker

import (
	flags "flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/internal/redistest"
)

// The files testdata/*.lua are the scripts as Redis runs them.
//
// go test -run TestScripts ./locker/redislocker -update writes them anew.
var update = flags.Bool("update", false, "write the scripts as they are sent")

// scripts are all scripts by name. release is that of a locker with the default
// prefix on a single server.
func scripts() map[string]*script {
	return map[string]*script{
		"look": lookScript, "take": takeScript, "takeshare": takeShareScript, "all": allScript,
		"renew": renewScript, "renewshare": renewShareScript, "fence": fenceScript, "touch": touchScript,
		"release": newRelease("guard:inbox:", true), "keep": keepScript, "unmark": unmarkScript,
		"inspect": inspectScript, "begin": beginScript, "forget": forgetScript,
	}
}

func TestScriptsAreThoseInTestdata(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all, made := scripts(), 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		made += len(regexp.MustCompile(`(?:=|return) newScript\(`).FindAll(text, -1))
	}
	if made != len(all) {
		t.Errorf("%d scripts are made, and %d have a file in testdata", made, len(all))
	}
	shown, err := filepath.Glob("testdata/*.lua")
	if err != nil || len(shown) != len(all) && !*update {
		t.Errorf("testdata has %d scripts, want %d (%v)", len(shown), len(all), err)
	}
	for name, s := range all {
		file := "testdata/" + name + ".lua"
		source, _ := s.source.(string)
		if *update {
			if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != source {
			t.Errorf("%s is not what is sent (%v): if that is meant, write it anew with -update", file, err)
		}
	}
}

// A proxy or a cluster must know by KEYS alone which keys a script touches.
// Some refuse scripts without keys, and unpack.
func TestScriptsTouchNoKeyButKEYS(t *testing.T) {
	for name, s := range scripts() {
		source, _ := s.source.(string)
		for _, fault := range foreignKeys(source) {
			t.Errorf("%s: %s", name, fault)
		}
		if !strings.Contains(source, "KEYS[") || strings.Contains(source, "unpack") {
			t.Errorf("%s has no keys, or unpacks", name)
		}
	}
	for _, fault := range []string{
		`redis.call("get", KEYS[1] .. ":x")`, `redis.call("get", ARGV[1])`, `redis.pcall("del", name)`,
		`redis.call("set", "name", 1)`, "local name = ARGV[1]\nredis.call(\"get\", name)", `redis.call(command, KEYS[1])`,
		"local function f(key)\n  redis.call(\"get\", key)\nend\nf(ARGV[1])", `redis.call ("get", ARGV[1])`,
		`return {redis.call("get", KEYS[1]), redis.call("get", ARGV[1])}`, `local call = redis.call`,
	} {
		if len(foreignKeys(fault)) == 0 {
			t.Errorf("nobody minds %s", fault)
		}
	}
}

// foreignKeys returns the uses of keys in a script that are neither of KEYS nor
// of a name for one: a local, or the parameter key of a function.
func foreignKeys(source string) (faults []string) {
	source = regexp.MustCompile(`--.*`).ReplaceAllString(source, "")
	known := map[string]bool{}
	for _, line := range regexp.MustCompile(`local ([\w, ]+) = (.*)`).FindAllStringSubmatch(source, -1) {
		names, values := strings.Split(line[1], ", "), strings.Split(line[2], ", ")
		for i, name := range names {
			if i < len(values) && isKey.MatchString(values[i]) {
				known[name] = true
			}
		}
	}
	good := func(arg string) bool { return known[arg] || isKey.MatchString(arg) }
	for _, f := range regexp.MustCompile(`function (\w+)\(key\b`).FindAllStringSubmatch(source, -1) {
		known["key"] = true
		for _, use := range regexp.MustCompile(`\b`+f[1]+`[(,] ?([^,)]+)`).FindAllStringSubmatch(source, -1) {
			if use[1] != "key" && !good(use[1]) {
				faults = append(faults, use[0])
			}
		}
	}
	call := regexp.MustCompile(`^redis\.p?call\("(\w+)"(?:, ((?:[^,)(]|\([^)]*\))+))?`)
	for _, at := range regexp.MustCompile(`\bredis\b`).FindAllStringIndex(source, -1) {
		use, _, _ := strings.Cut(source[at[0]:], "\n")
		parts := call.FindStringSubmatch(use)
		if parts == nil || parts[1] != "publish" && parts[1] != "pubsub" && parts[1] != "time" && !good(parts[2]) {
			faults = append(faults, use)
		}
	}
	return faults
}

var isKey = regexp.MustCompile(`^KEYS\[(\d+|i|n \+ i)\]$`)

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
