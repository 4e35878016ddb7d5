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
	inLook    = `local INBOXES, KNOWN, KEY = ARGV[6], ARGV[8] == "1", string.sub(ARGV[7], 8)` + "\n" // behind "wanted "
	inRelease = `local KEY, OWN, NEXT = ARGV[2], ARGV[3] or "", ARGV[4] or ""` + "\n"
	inKeep    = `local OWN, NEXT, INBOXES, KNOWN, KEY = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == "1", ARGV[6]` + "\n"
	inFence   = "local MEMBERS = KEYS[3]\n"
	inTouch   = "local MEMBERS = KEYS[2]\n"
	inStay    = "local LOCK, MEMBERS, crowd = KEYS[1], KEYS[2], {}\n"
	inCrowd   = "local LOCK, MEMBERS = KEYS[1], KEYS[5]\n"
	noCrowd   = "local crowd = {} -- crowd.lua fills it\n"
)

// The scripts, as testdata shows them, without the one that newRelease returns.
// What a key of a single owner needs stands in front, because a script pays for
// each function that it defines, and for each name outside of the function that
// the function uses.
var (
	lookScript = newScript("look", consts(), "entry", "queue", "lineup", "look", "tokens", inLook, noCrowd, inCrowd,
		"crowd", "offer", "serve", "ahead", "lookcrowd", "wait")
	recallScript = newScript("recall", consts(), "tokens", "recall", "entry", "queue", "lineup", "look", inLook,
		noCrowd, inCrowd, "crowd", "offer", "serve", "ahead", "lookcrowd", "wait")
	enterScript = newScript("enter", consts(), "entry", "queue", "lineup", "tokens", inLook, noCrowd, inCrowd,
		"crowd", "offer", "serve", "ahead", "enter", "wait")
	keepScript    = newScript("keep", append([]string{consts(), inKeep, "keep"}, ending...)...)
	unmarkScript  = newScript("unmark", append([]string{consts(), inKeep, "unmark"}, ending...)...)
	allScript     = newScript("all", consts(), "tokens", "all")
	renewScript   = newScript("renew", "renew")
	stayScript    = newScript("stay", consts(), inStay, "entry", "crowd", "share", "stay")
	fenceScript   = newScript("fence", consts(), inFence, "entry", "tokens", "share", "fence")
	touchScript   = newScript("touch", consts(), inTouch, "entry", "share", "touch")
	inspectScript = newScript("inspect", consts(), "entry", "inspect")
	beginScript   = newScript("begin", "begin")
	forgetScript  = newScript("forget", "forget")
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
	return newScript("release", append([]string{consts(), names, inRelease}, ending...)...)
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
// named sources. The comments at the beginning of sources that explain keys,
// arguments and results go to the top, first that of the source with the name
// of the script.
func newScript(name string, parts ...string) *script {
	var first, top, code strings.Builder
	for _, part := range parts {
		if strings.HasSuffix(part, "\n") {
			code.WriteString(part)
			continue
		}
		text, err := sources.ReadFile(part + ".lua")
		if err != nil {
			panic(err)
		}
		head, body, _ := strings.Cut(string(text), "\n\n")
		switch {
		case part == name:
			first.WriteString(head + "\n")
		case strings.Contains(head, "\n-- KEYS["), strings.Contains(head, "\n-- ARGV["):
			top.WriteString("\n" + head + "\n")
		default:
			body = string(text)
		}
		code.WriteString("\n" + body)
	}
	source := first.String() + top.String() + "\n" + code.String()
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
