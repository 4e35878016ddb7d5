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

// The names of the keys and arguments that the shared parts of scripts use.
const (
	allNames   = "local LOCK, WAIT, DUE, FENCE, CROWD = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]\n"
	crowdNames = "local LOCK, CROWD = KEYS[1], KEYS[2]\n"
	inRelease  = `local KEY, OWN, NEXT = ARGV[2], ARGV[3] or "", ARGV[4] or ""` + "\n"
	inKeep     = `local OWN, NEXT, INBOXES, KNOWN, KEY = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == "1", ARGV[6]` + "\n"
	// The key stands behind "wanted ".
	inLook = `local INBOXES, KNOWN, KEY = ARGV[6], ARGV[8] == "1", string.sub(ARGV[7], 8)` + "\n"
)

// The scripts. The functions for a key of a single owner stand in front,
// because a script pays for each function that it defines.
var (
	lookScript = newScript(consts(), lua("entry", "back", "look"),
		allNames, inLook, lua("tokens", "late", "offer", "crowd", "serve", "lookcrowd"))
	enterScript = newScript(consts(), allNames, inLook,
		lua("entry", "back", "tokens", "late", "offer", "crowd", "serve", "enter"))
	allScript     = newScript(consts(), lua("tokens", "all"))
	renewScript   = newScript(lua("renew"))
	stayScript    = newScript(consts(), crowdNames, lua("entry", "crowd", "share", "stay"))
	fenceScript   = newScript(consts(), "local CROWD = KEYS[3]\n", lua("entry", "tokens", "share", "fence"))
	inspectScript = newScript(consts(), lua("entry", "inspect"))
	touchScript   = newScript(consts(), crowdNames, lua("entry", "share", "touch"))
)

// releaseTail is what follows release.lua, which most releases never reach.
var releaseTail = lua("tokens", "entry", "back") + allNames +
	lua("late", "offer", "handover", "crowd", "share", "serve", "releasecrowd")

// newRelease returns the script that ends a hold. What never changes for a
// locker stands in its text, because each argument costs the server a twentieth
// of a release. inboxes is the start of the channel of an inbox.
func newRelease(inboxes string, known bool) *script {
	return newScript(consts(), fmt.Sprintf("local INBOXES, KNOWN = %s, %t\n", luaString(inboxes), known), inRelease,
		lua("release"), releaseTail)
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

// lua returns the named sources, one behind the other.
func lua(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile(name + ".lua")
		if err != nil {
			panic(err)
		}
		all.Write(text)
	}
	return all.String()
}

// consts are the constants of the scripts, on one line. MARK is the start of a
// lock that a crowd owns, see crowd.lua.
func consts() string {
	return fmt.Sprintf("local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, MARK = "+
		"\"%d\", %d, %d, %d, %d, %d, %q\n",
		entryVersion, late, locker.LookEvery.Milliseconds(), locker.QueueLife.Milliseconds(), locker.FenceBlock,
		fenceLife.Milliseconds(), crowdMark)
}

// script is a script's text and name, as the arguments of a command.
type script struct{ source, sha any }

func newScript(sources ...string) *script {
	source := strings.Join(sources, "")
	return &script{source: source, sha: redis.NewScript(source).Hash()}
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

func (c *call) bySHA(ctx context.Context) command { return redisconn.NewCommand(ctx, c.line...) }

func (c *call) whole(ctx context.Context) command {
	if c.script == nil {
		return c.bySHA(ctx)
	}
	spelled := c.spelled()
	return spelled.bySHA(ctx)
}

// byName reports whether the server has to know the script.
func (c *call) byName() bool { return c.line[0] == evalSHA }

// spelled is the call with the script's text in place of its name. No server
// answers NOSCRIPT to it.
func (c *call) spelled() call {
	line := slices.Clone(c.line)
	line[0], line[1] = eval, c.script.source
	return call{c.script, line}
}
