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
	allNames   = "local LOCK, WAIT, DUE, FENCE, MEMBERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]\n"
	crowdNames = "local LOCK, MEMBERS = KEYS[1], KEYS[2]\n"
	inRelease  = `local KEY, OWN, NEXT = ARGV[2], ARGV[3] or "", ARGV[4] or ""` + "\n"
	inKeep     = `local OWN, NEXT, INBOXES, KNOWN, KEY = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == "1", ARGV[6]` + "\n"
	// The key stands behind "wanted ".
	inLook = `local INBOXES, KNOWN, KEY = ARGV[6], ARGV[8] == "1", string.sub(ARGV[7], 8)` + "\n"
)

// The scripts. The functions for a key of a single owner stand in front,
// because a script pays for each function that it defines.
var (
	lookScript  = newScript(consts(), allNames, inLook, looking, lua("tokens"), lookingAtCrowd)
	enterScript = newScript(consts(), allNames, inLook,
		lua("entry", "queue", "lineup", "tokens", "crowd", "offer", "serve", "ahead", "enter", "wait"))
	allScript     = newScript(consts(), lua("tokens", "all"))
	renewScript   = newScript(lua("renew"))
	stayScript    = newScript(consts(), crowdNames, lua("entry", "crowd", "share", "stay"))
	fenceScript   = newScript(consts(), "local MEMBERS = KEYS[3]\n", lua("entry", "tokens", "share", "fence"))
	inspectScript = newScript(consts(), lua("entry", "inspect"))
	touchScript   = newScript(consts(), crowdNames, lua("entry", "share", "touch"))
)

// releaseTail is what follows release.lua, which most releases never reach.
var releaseTail = allNames +
	lua("entry", "queue", "tokens", "crowd", "offer", "serve", "handover", "share", "releasecrowd")

// A look, and a recall that finds no record, end with these.
var (
	looking        = lua("entry", "queue", "lineup", "look")
	lookingAtCrowd = lua("crowd", "offer", "serve", "ahead", "lookcrowd", "wait")
)

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

type command = redisconn.Command

func newCommand(ctx context.Context, verb any, script string, keys []string, args []any) command {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, verb, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	return redisconn.NewCommand(ctx, append(all, args...)...)
}

// unknown reports whether the server does not have the script. It was
// restarted, failed over or flushed then.
func unknown(c command) bool { return c.Err() != nil && redis.HasErrorPrefix(c.Err(), "NOSCRIPT") }

// run sends calls as one request and returns their answers. Calls that fail
// because the server does not know their script go again. First each script
// goes once with its text, so that the calls behind it find it. Then all
// remaining calls go with their text, for the sake of the other nodes of a
// cluster.
func (l *Locker) run(ctx context.Context, calls ...call) []command {
	return run(ctx, l.conn.Send, calls...)
}

func run(ctx context.Context, send redisconn.Way, calls ...call) []command {
	answers := make([]command, len(calls))
	for i := range calls {
		answers[i] = calls[i].bySHA(ctx)
	}
	answers = send(ctx, answers...)
	if !slices.ContainsFunc(answers, unknown) {
		return answers
	}
	told := map[*script]bool{}
	runUnknown(ctx, send, calls, answers, func(s *script) bool { first := !told[s]; told[s] = true; return first })
	runUnknown(ctx, send, calls, answers, func(*script) bool { return true })
	return answers
}

// runOne is run for one call. A nil send is the way of all requests.
func (l *Locker) runOne(ctx context.Context, send redisconn.Way, c call) command {
	if send != nil {
		return run(ctx, send, c)[0]
	}
	answer := l.conn.SendOne(ctx, c.bySHA(ctx))
	if unknown(answer) {
		answer = l.conn.SendOne(ctx, c.whole(ctx))
	}
	return answer
}

// runUnknown sends again the calls whose answer is NOSCRIPT. It sends the text
// of a script if whole says so.
func runUnknown(ctx context.Context, send redisconn.Way, calls []call, answers []command, whole func(*script) bool) {
	var at []int
	var again []command
	for i := range answers {
		if !unknown(answers[i]) {
			continue
		}
		at = append(at, i)
		if whole(calls[i].script) {
			again = append(again, calls[i].whole(ctx))
		} else {
			again = append(again, calls[i].bySHA(ctx))
		}
	}
	if len(again) == 0 {
		return
	}
	again = send(ctx, again...)
	for n, i := range at {
		answers[i] = again[n]
	}
}

// travel carries redislock's scripts to the server. Each goes in one request,
// with scripts of ours behind it. A travel with something behind belongs to one
// try, and the others are shared.
type travel struct {
	redis.Scripter // the rest of the interface, which redislock never calls

	locker  *Locker
	own     redisconn.Way // nil: that of all requests
	whole   bool          // send all texts, because there is no time to learn that the server does not know the scripts
	behind  []call        // go behind the script
	answers []command     // to behind
}

// EvalSha sends a script by its hash. redislock answers NOSCRIPT with Eval.
func (t *travel) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	head := newCommand(ctx, evalSHA, sha, keys, args)
	if t.whole {
		head.SetErr(redis.ErrNoScript)
		return head.Cmd
	}
	head = t.send(ctx, head, (*call).bySHA)
	if unknown(head) {
		head.SetErr(redis.ErrNoScript) // redislock compares the text
		return head.Cmd
	}
	for i, a := range t.answers {
		if unknown(a) {
			t.answers[i] = t.by(ctx, t.behind[i].whole(ctx))[0]
		}
	}
	return head.Cmd
}

// Eval sends a script with its text. The calls behind it go with their texts
// too.
func (t *travel) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	return t.send(ctx, newCommand(ctx, eval, source, keys, args), (*call).whole).Cmd
}

// send returns the first command with its answer, and keeps the answers of
// those behind it.
func (t *travel) send(ctx context.Context, head command, how func(*call, context.Context) command) command {
	if len(t.behind) == 0 {
		return t.by(ctx, head)[0]
	}
	cmds := make([]command, 1, 1+len(t.behind))
	cmds[0] = head
	for i := range t.behind {
		cmds = append(cmds, how(&t.behind[i], ctx))
	}
	cmds = t.by(ctx, cmds...)
	t.answers = cmds[1:]
	return cmds[0]
}

// by sends commands the way of this travel.
func (t *travel) by(ctx context.Context, cmds ...command) []command {
	if t.own != nil {
		return t.own(ctx, cmds...)
	}
	return t.locker.conn.Send(ctx, cmds...)
}
