package redislocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// server is Redis as a locker reaches it, with what all requests of the locker
// have in common.
type server struct {
	conn  *redisconn.Conns
	send  redisconn.SendFunc // of all requests that need no connection of their own
	names *names
	locks *redislock.Client // obtains keys without fencing

	freeing *script // release.lua for the names of this locker
	inboxes any     // start of the channel of every inbox under this prefix, before the instance id
	known   any     // for scripts: a server that is asked knows who hears a channel
}

func newServer(conn *redisconn.Conns, names *names) *server {
	inboxes := names.prefix + inboxSuffix
	s := &server{
		conn: conn, send: conn.Send, names: names, freeing: newRelease(inboxes, !conn.Cluster()),
		inboxes: inboxes, known: flag(!conn.Cluster()),
	}
	s.locks = redislock.New(&scripter{to: s.send})
	return s
}

// awaitConnection waits until there is a connection for key.
func (s *server) awaitConnection(ctx context.Context, key string) error {
	if s.conn.Near() {
		return nil
	}
	return s.tryError(s.conn.Ready(ctx, s.names.lock(key)))
}

// Node returns the address of the cluster node that has key, as far as the
// client knows it now, and sends nothing. Without a cluster the result is the
// same for all keys.
func (s *server) Node(key string) string {
	if !s.conn.Cluster() {
		return ""
	}
	return s.conn.Node(s.names.lock(key))
}

// primary returns the address where key lives now, as far as the client knows.
// It is for servers that may change. The result is "" if the client does not
// know.
func (s *server) primary(key string) string {
	if s.conn.Sentinel() {
		return s.conn.Elected()
	}
	return s.Node(key)
}

// ask sends a request to the primary of each key. From the answers the client
// learns whether it still is the primary.
func (s *server) ask(ctx context.Context, keys []string) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = s.names.lock(k)
	}
	s.conn.Ask(ctx, names)
}

// perNode calls send once for each node, with the indices of the node's claims.
// It serves all nodes at the same time.
func (s *server) perNode(cs []*locker.Claim, send func(node string, at []int)) {
	byNode := make(map[string][]int, 1)
	for i, c := range cs {
		n := s.Node(c.Key)
		byNode[n] = append(byNode[n], i)
	}
	if len(byNode) == 1 {
		for n, at := range byNode {
			send(n, at)
		}
		return
	}
	var wg sync.WaitGroup
	for n, at := range byNode {
		wg.Go(func() { send(n, at) }) // ends with the request's time limit
	}
	wg.Wait()
}

// runPerNode runs the call of each claim, those of each node as one request, and
// passes the answers on.
func (s *server) runPerNode(
	ctx context.Context, cs []*locker.Claim, of func(i int) call, answered func(i int, answer command),
) {
	s.perNode(cs, func(_ string, at []int) {
		calls := make([]call, len(at))
		for n, i := range at {
			calls[n] = of(i)
		}
		for n, answer := range s.runCalls(ctx, calls...) {
			answered(at[n], answer)
		}
	})
}

// runCalls sends calls as one request and returns their answers. Calls that
// fail because the server does not know their script go again. First each
// script goes once with its text, so that the calls behind it find it. All
// remaining calls then go with their text, for the sake of the other nodes of a
// cluster. If there is no time to learn that, they begin so.
func (s *server) runCalls(ctx context.Context, calls ...call) []command {
	return s.over(ctx, s.send, calls...)
}

// over is runCalls over the connections of send.
func (s *server) over(ctx context.Context, send redisconn.SendFunc, calls ...call) []command {
	if s.conn.Trip.Tight(ctx) {
		textFirst(calls)
	}
	answers := sendAll(ctx, send, calls)
	runUnknown(ctx, send, calls, answers, textFirst)
	runUnknown(ctx, send, calls, answers, textAll)
	return answers
}

func sendAll(ctx context.Context, send redisconn.SendFunc, calls []call) []command {
	cmds := make([]command, len(calls))
	for i := range calls {
		cmds[i] = calls[i].command(ctx)
	}
	return send(ctx, cmds...)
}

// runUnknown sends again the calls whose answer is NOSCRIPT, spelled.
func runUnknown(ctx context.Context, send redisconn.SendFunc, calls []call, answers []command, addText func([]call)) {
	var at []int
	for i := range answers {
		if unknownScript(answers[i]) {
			at = append(at, i)
		}
	}
	if at == nil {
		return
	}
	again := pick(calls, at)
	addText(again)
	for n, answer := range sendAll(ctx, send, again) {
		answers[at[n]] = answer
	}
}

func pick[E any](from []E, places []int) []E {
	picked := make([]E, len(places))
	for i, p := range places {
		picked[i] = from[p]
	}
	return picked
}

// runOne is runCalls for one call.
func (s *server) runOne(ctx context.Context, c call) command {
	answer := s.conn.SendOne(ctx, c.command(ctx))
	if unknownScript(answer) {
		c.useText()
		answer = s.conn.SendOne(ctx, c.command(ctx))
	}
	return answer
}

// unknownScript reports whether the server does not have the script. It was
// restarted, failed over or flushed then.
func unknownScript(c command) bool {
	return c.Err() != nil && redis.HasErrorPrefix(c.Err(), "NOSCRIPT")
}

// releaseCall frees the key by owner id alone, or hands it on. own is the
// owner's entry, which leaves the queue and the crowd. next is queued behind
// all others. Both may be "".
func (s *server) releaseCall(key string, k keys, owner any, own, next string) call {
	line := make([]any, 0, 12)
	line = append(line, evalSHA, s.freeing.sha, 5, k.lock, k.wait, k.due, k.fence, k.crowd, owner, key)
	switch {
	case next != "":
		line = append(line, own, next)
	case own != "":
		line = append(line, own)
	}
	return call{s.freeing, line}
}

// recordCall is a run of a script that does something to the key's record and
// then what a release does. more are the arguments that only this script has.
func (s *server) recordCall(by *script, st *state, own, next string, more ...any) call {
	k := &st.keys
	return newCall(by, 6, append([]any{
		k.lock, k.wait, k.due, k.fence, k.crowd, s.names.record(st.claim.Key),
		st.owner, own, next, s.inboxes, s.known, st.claim.Key,
	}, more...)...)
}

// scripter carries redislock's scripts to the server.
type scripter struct {
	redis.Scripter // the rest of the interface, which redislock never calls

	to redisconn.SendFunc
}

// EvalSha sends a script by its hash. redislock answers NOSCRIPT with Eval.
func (t *scripter) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	answer := t.send(ctx, evalSHA, sha, keys, args)
	if unknownScript(answer) {
		answer.SetErr(redis.ErrNoScript) // redislock compares the text
	}
	return answer.Cmd
}

// Eval sends a script with its text.
func (t *scripter) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	return t.send(ctx, eval, source, keys, args).Cmd
}

func (t *scripter) send(ctx context.Context, verb any, script string, keys []string, args []any) command {
	line := make([]any, 0, 3+len(keys)+len(args))
	line = append(line, verb, script, len(keys))
	for _, k := range keys {
		line = append(line, k)
	}
	return t.to(ctx, redisconn.NewCommand(ctx, append(line, args...)...))[0]
}

type command = redisconn.Command

// tryError is the error that Acquire returns for err: ErrUnavailable, or the
// server's refusal if a new try cannot help.
func (s *server) tryError(err error) error {
	if err == nil {
		return nil
	}
	if s.refused(err) {
		return fmt.Errorf("redislocker: %w", &serverError{err})
	}
	return unclear(err)
}

// refused reports whether the server answered with an error that stays until
// somebody changes something.
func (s *server) refused(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false // the network, a time limit, the pool
	}
	c := code(err)
	if c == "MOVED" || c == "ASK" { // a cluster client has followed as many as it may
		return !s.conn.Cluster()
	}
	return !slices.Contains(passing, c)
}
