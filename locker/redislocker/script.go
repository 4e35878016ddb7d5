package redislocker

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

//go:embed *.lua
var sources embed.FS

// Lines of Lua that name keys and arguments for the sources behind them.
const (
	inLook       = `local INBOXES, KNOWN, KEY = ARGV[6], ARGV[8] == "1", string.sub(ARGV[7], 8)` + "\n" // behind "wanted "
	inRelease    = `local KEY, OWN, NEXT = ARGV[2], ARGV[3] or "", ARGV[4] or ""` + "\n"
	inKeep       = `local OWN, NEXT, INBOXES, KNOWN, KEY = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == "1", ARGV[6]` + "\n"
	inFence      = "local MEMBERS = KEYS[3]\n"
	inTouch      = "local MEMBERS = KEYS[2]\n"
	inRenewShare = "local LOCK, MEMBERS, crowd = KEYS[1], KEYS[2], {}\n"
	inCrowd      = "local LOCK, MEMBERS = KEYS[1], KEYS[5]\n"
	noCrowd      = "local crowd = {} -- crowd.lua fills it\n"
)

// The scripts, as testdata shows them, without the one that newRelease returns.
// What a key of a single owner needs stands in front, because a script pays for
// each function that it defines, and for each name outside of the function that
// the function uses.
var (
	lookScript = newScript(consts(), "entry", "queue", "lineup", "look", "tokens", inLook, noCrowd, inCrowd,
		"crowd", "offer", "serve", "ahead", "lookcrowd", "wait")
	takeScript = newScript(consts(), "tokens", "take", "entry", "queue", "lineup", "look", inLook,
		noCrowd, inCrowd, "crowd", "offer", "serve", "ahead", "lookcrowd", "wait")
	takeShareScript = newScript(consts(), "entry", "queue", "lineup", "tokens", inLook, noCrowd, inCrowd,
		"crowd", "offer", "serve", "ahead", "takeshare", "wait")
	keepScript       = newScript(append([]string{consts(), inKeep, "keep"}, ending...)...)
	unmarkScript     = newScript(append([]string{consts(), inKeep, "unmark"}, ending...)...)
	allScript        = newScript(consts(), "tokens", "all")
	renewScript      = newScript("renew")
	renewShareScript = newScript(consts(), inRenewShare, "entry", "crowd", "share", "renewshare")
	fenceScript      = newScript(consts(), inFence, "entry", "tokens", "share", "fence")
	touchScript      = newScript(consts(), inTouch, "entry", "share", "touch")
	inspectScript    = newScript(consts(), "entry", "inspect")
	beginScript      = newScript("begin")
	forgetScript     = newScript("forget")
)

// ending ends a hold.
var ending = []string{
	"release", "entry", "queue", "tokens", noCrowd, "offer", "serve", "handover", // most hand-overs need no more
	inCrowd, "crowd", "share", "releasecrowd",
}

// newRelease returns the script that ends a hold. What never changes for a
// locker stands in its text, because each argument costs the server a twentieth
// of a release. inboxes is the start of the channel of an inbox.
func newRelease(inboxes string, known bool) *script {
	names := fmt.Sprintf("local INBOXES, KNOWN = %s, %t\n", luaString(inboxes), known)
	return newScript(append([]string{consts(), names, inRelease}, ending...)...)
}

// luaString returns text as Lua source. Go's %q has escapes that Lua lacks.
func luaString(text string) string {
	quoted := []byte{'"'}
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' || b == '"' || b == '\\' {
			quoted = fmt.Appendf(quoted, `\%03d`, b)
		} else {
			quoted = append(quoted, b)
		}
	}
	return string(append(quoted, '"'))
}

// consts are the constants of the scripts, on one line. CROWD is the start of a
// lock that a crowd owns, see crowd.lua.
func consts() string {
	return fmt.Sprintf("local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "+
		"\"%d\", %d, %d, %d, %d, %d, %q\n",
		entryVersion, late, locker.LookEvery.Milliseconds(), locker.QueueLife.Milliseconds(), locker.FenceBlock,
		fenceLife.Milliseconds(), crowdMark)
}

// script is a script's text and name, as the arguments of a command.
type script struct{ source, sha any }

// newScript assembles a script of lines of Lua, which end with a newline, and
// named sources. Comments stay here.
func newScript(parts ...string) *script {
	var code strings.Builder
	for _, part := range parts {
		if !strings.HasSuffix(part, "\n") {
			text, err := sources.ReadFile(part + ".lua")
			if err != nil {
				panic(err)
			}
			part = string(text)
		}
		for line := range strings.Lines(part) {
			if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "--") {
				code.WriteString(line)
			}
		}
	}
	return &script{source: code.String(), sha: redis.NewScript(code.String()).Hash()}
}

// call is one run of a script.
type call struct {
	script *script
	line   []any // the command: verb, script, number of keys, keys, arguments; of a call without script just a command
}

// newCall takes the script's keys, followed by its arguments.
func newCall(s *script, keys int, keysAndArgs ...any) call {
	line := make([]any, 0, 3+len(keysAndArgs))
	line = append(line, evalSHA, s.sha, keys)
	return call{s, append(line, keysAndArgs...)}
}

// The verbs, and the arguments that every call has. They are converted once.
var (
	evalSHA     any = "evalsha"
	eval        any = "eval"
	set         any = "set"
	px          any = "px"
	nx          any = "nx"
	yes         any = "1"
	no          any = "0"
	block       any = locker.FenceBlock
	counterLife any = fenceLife.Milliseconds()
)

func flag(b bool) any {
	if b {
		return yes
	}
	return no
}

func (c *call) command(ctx context.Context) command { return redisconn.NewCommand(ctx, c.line...) }

// useText puts the script's text in place of its name. No server answers
// NOSCRIPT to that.
func (c *call) useText() {
	if c.script != nil {
		c.line = slices.Clone(c.line)
		c.line[0], c.line[1] = eval, c.script.source
	}
}

// textFirst puts the text of each script into its first call, so that the
// server has the script for the calls behind it.
func textFirst(calls []call) {
	told := make(map[*script]bool, 2)
	for n := range calls {
		if s := calls[n].script; !told[s] {
			told[s] = true
			calls[n].useText()
		}
	}
}

func textAll(calls []call) {
	for n := range calls {
		calls[n].useText()
	}
}
