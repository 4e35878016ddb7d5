package redislocker

import (
	"cmp"
	"context"
	"crypto/sha1" // as Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

//go:embed look.lua
var lookSource string

//go:embed renew.lua
var renewSource string

//go:embed fence.lua
var fenceSource string

//go:embed waiting.lua
var waitingSource string

//go:embed clean.lua
var cleanSource string

var (
	lookScript    = newScript(lookSource)
	renewScript   = newScript(renewSource)
	fenceScript   = newScript(fenceSource)
	waitingScript = newScript(waitingSource)
	cleanScript   = newScript(cleanSource)
)

type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// call is one run of a script.
type call struct {
	script *script
	keys   []string
	args   []any
}

func (c *call) bySHA(ctx context.Context) command {
	return newCommand(ctx, "evalsha", c.script.sha, c.keys, c.args)
}

func (c *call) whole(ctx context.Context) command {
	return newCommand(ctx, "eval", c.script.source, c.keys, c.args)
}

// command is a request that go-redis must not repeat by itself, as a cluster client does: a release that is done twice
// answers "not held".
type command struct{ *redis.Cmd }

// NoRetry is asked by go-redis.
func (command) NoRetry() bool { return true }

func newCommand(ctx context.Context, verb, script string, keys []string, args []any) command {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, verb, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	return command{redis.NewCmd(ctx, append(all, args...)...)}
}

// unknown reports whether the server does not have the script: it was restarted, failed over or flushed.
func (c command) unknown() bool { return redis.HasErrorPrefix(c.Err(), "NOSCRIPT") }

var errNoAnswer = errors.New("no usable answer")

// send sends cmds as one request and waits until each holds its answer or error. A cluster client splits the request by
// node. It is a pipeline even for one command, because a cluster client looks up single ones in the server's list of
// commands first.
func (l *Locker) send(ctx context.Context, cmds ...command) {
	pipe := l.client.Pipeline()
	for _, c := range cmds {
		_ = pipe.Process(ctx, c) // only queues
	}
	_, err := pipe.Exec(ctx)
	for _, c := range cmds {
		if c.Err() == nil && c.Val() == nil { // go-redis leaves them so if the login of a new connection was refused
			c.SetErr(cmp.Or(err, errNoAnswer))
		}
	}
	if l.cluster != nil && unreachable(err) {
		l.cluster.ReloadState(ctx) // in the background, and not too often: or it would learn of a failover much later
	}
}

func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

// run sends calls as one request and returns their answers. What the server did not know goes again: each script once
// with its text, for those behind it to find it; then, for the sake of the other nodes of a cluster, all with their text.
func (l *Locker) run(ctx context.Context, calls ...call) []command {
	answers := make([]command, len(calls))
	for i := range calls {
		answers[i] = calls[i].bySHA(ctx)
	}
	l.send(ctx, answers...)
	told := map[*script]bool{}
	l.runUnknown(ctx, calls, answers, func(s *script) bool { first := !told[s]; told[s] = true; return first })
	l.runUnknown(ctx, calls, answers, func(*script) bool { return true })
	return answers
}

// runUnknown sends those calls again whose answer is NOSCRIPT, with the text of the script where whole says so.
func (l *Locker) runUnknown(ctx context.Context, calls []call, answers []command, whole func(*script) bool) {
	var again []command
	for i := range answers {
		if !answers[i].unknown() {
			continue
		}
		if whole(calls[i].script) {
			answers[i] = calls[i].whole(ctx)
		} else {
			answers[i] = calls[i].bySHA(ctx)
		}
		again = append(again, answers[i])
	}
	if len(again) > 0 {
		l.send(ctx, again...)
	}
}

// travel is how redislock's scripts reach the server: each in one request, with at most one script of ours behind it.
// It belongs to one claim, whose calls never overlap.
type travel struct {
	redis.Scripter // the rest of the interface, which redislock never calls

	locker *Locker
	behind *call   // goes behind the next script; nil: nothing
	answer command // to behind
}

// EvalSha sends a script by its hash. redislock answers NOSCRIPT with Eval.
func (t *travel) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	head := newCommand(ctx, "evalsha", sha, keys, args)
	if t.behind == nil {
		t.locker.send(ctx, head)
	} else {
		t.answer = t.behind.bySHA(ctx)
		t.locker.send(ctx, head, t.answer)
	}
	if head.unknown() {
		head.SetErr(redis.ErrNoScript) // redislock compares the text
		return head.Cmd
	}
	if t.behind != nil && t.answer.unknown() {
		t.answer = t.behind.whole(ctx)
		t.locker.send(ctx, t.answer)
	}
	return head.Cmd
}

// Eval sends a script with its text, and what goes behind it too.
func (t *travel) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	head := newCommand(ctx, "eval", source, keys, args)
	if t.behind == nil {
		t.locker.send(ctx, head)
		return head.Cmd
	}
	t.answer = t.behind.whole(ctx)
	t.locker.send(ctx, head, t.answer)
	return head.Cmd
}
