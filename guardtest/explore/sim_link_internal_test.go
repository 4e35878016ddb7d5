package explore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/go-lockguard/guard/internal/limits"
)

// link is one connection between a process and Redis.
type link struct {
	r     *redisNet
	on    *redisServer
	p     *process
	conn  *socket
	ctx   any           // of the server; used by serve only
	more  chan struct{} // capacity 1: todo or conn has changed
	heard chan struct{} // capacity 1: frames has changed
	gone  chan struct{} // closed with the link
	once  sync.Once

	mu        sync.Mutex // guards the fields below
	todo      [][]string // commands that were sent
	frames    []string   // that the server has written by itself
	channels  map[string]bool
	silent    bool // nothing goes through any more, though both ends are open
	atReplica bool // the subscription; messages come, and the server counts nobody
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	errNoRoute = &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
)

// dialer dials for p.
func (r *redisNet) dialer(p *process) func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		r.dials(p)
		// go-redis holds the mutex of a subscription while it dials for it.
		// While a goroutine waits for a mutex, the clock of its bubble stands
		// still.
		switch {
		case !dialsForASubscription():
			if err := r.dial(ctx, p); err != nil {
				return nil, err
			}
		case r.cannot(p):
			return nil, errRefused
		}
		l := &link{
			r: r, on: r.server(p), p: p, channels: make(map[string]bool),
			more: make(chan struct{}, 1), heard: make(chan struct{}, 1), gone: make(chan struct{}),
		}
		l.conn = &socket{l: l, wake: make(chan struct{}, 1)}
		r.add(l)
		r.w.mu.Lock()
		p.atCrash = append(p.atCrash, l)
		r.w.mu.Unlock()
		go l.serve() // ends with the link, or with the run
		return l.conn, nil
	}
}

func dialsForASubscription() bool {
	b := make([]byte, 1<<13)
	return bytes.Contains(b[:runtime.Stack(b, false)], []byte("(*PubSub)"))
}

// cannot reports whether p is dead, stands still or does not reach Redis.
func (r *redisNet) cannot(p *process) bool {
	out := r.outFor(p) > 0
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return out || p.dead || time.Now().Before(p.stands)
}

// dial is the gate of a dial.
func (r *redisNet) dial(ctx context.Context, p *process) error {
	p.freeze()
	k := p.passUntil(ctx, "dial", dialKinds, nothing)
	out := r.outFor(p)
	switch {
	case k == refused:
		return errRefused
	case k == over:
		out = time.Minute
	case out <= 0:
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(limits.Apart(out)):
	case <-p.end:
	}
	p.pass("no route", minor, nothing) // one after the other
	return errNoRoute
}

// isolate keeps p from Redis for as long as k takes.
func (r *redisNet) isolate(p *process, k kind) {
	r.wires.isolate(p, k)
	for _, l := range r.of(p) {
		l.hush()
	}
}

// Close ends both ends, as the death of the process does.
func (l *link) Close() error {
	l.cut()
	return l.conn.Close()
}

// cut ends the end of the server.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.gone)
		l.conn.end()
		l.r.remove(l)
	})
}

// isGone reports whether the end of the server is closed. Asked first, it makes
// what both ends do at once end in the same way each time.
func (l *link) isGone() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// hush is what a connection is that has lost bytes.
func (l *link) hush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = true
}

func (l *link) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}

// send takes a command that the process has written.
func (l *link) send(cmd []string) {
	l.mu.Lock()
	l.todo = append(l.todo, cmd)
	l.mu.Unlock()
	poke(l.more)
}

// next waits for a command. A process that has closed the connection sends no
// more of them.
func (l *link) next() (cmd []string, ok bool) {
	for {
		closed := l.conn.isClosed()
		l.mu.Lock()
		if ok = len(l.todo) > 0 && !l.isGone(); ok {
			cmd, l.todo = l.todo[0], l.todo[1:]
		}
		l.mu.Unlock()
		if ok || closed {
			return cmd, ok
		}
		select {
		case <-l.more:
		case <-l.gone:
			return nil, false
		case <-l.p.end:
			return nil, false
		}
	}
}

// serve carries out commands, one after the other.
func (l *link) serve() {
	defer l.cut()
	for {
		cmd, ok := l.next()
		if !ok || !l.isSilent() && !l.carry(cmd) {
			return
		}
	}
}

// answer hands bytes to the process, unless the connection has lost some.
func (l *link) answer(text string) {
	if !l.isSilent() {
		l.conn.hand(text)
	}
}

var redisState = touched{"redis"}

// carry takes one command to the server, and its answer back. carry reports
// false at the end of the connection.
func (l *link) carry(cmd []string) (goesOn bool) {
	what, kinds := l.describe(cmd)
	if kinds == nil {
		l.answer(l.r.do(l, cmd))
		return true
	}
	l.r.travel()
	k := l.p.pass(what, kinds, redisState)
	if l.isSilent() || k == over {
		return k != over
	}
	if goesOn, arrives := l.before(k, what); !arrives {
		return goesOn
	}
	if writes(cmd[0]) {
		l.r.snap(l)
	}
	answer := l.r.do(l, cmd)
	l.r.w.log(l.p, what+" -> "+brief(answer))
	if goesOn, arrives := l.behind(k, what, answer); !arrives {
		return goesOn
	}
	l.r.travel()
	l.p.freeze()
	l.answer(answer)
	return true
}

// before is what happens to a request. arrives says that it comes to the
// server.
func (l *link) before(k kind, what string) (goesOn, arrives bool) {
	switch k {
	case partition, blackout:
		l.r.isolate(l.p, k)
		return true, false
	case lostRequest:
		l.hush()
		return true, false
	case crashBefore:
		l.p.crash()
		return false, false
	case pause, longPause:
		return false, l.p.stand(k, redisState) != over
	case promote1, promote2, promote4:
		l.r.promote(lostWrites[k])
		return false, false
	case forgotten:
		l.r.forgetScripts()
	case splitShort, splitLong:
		l.r.split(l.p, k)
	case clockOn, clockBack:
		l.r.setClock(clockBy[k])
	case atReplica:
		l.mu.Lock()
		l.atReplica = true
		l.mu.Unlock()
	}
	if d := lateBy[k]; d > 0 {
		return false, l.r.hold(l.p, d, what, redisState)
	}
	return true, true
}

// behind is what happens to the answer.
func (l *link) behind(k kind, what, answer string) (goesOn, arrives bool) {
	switch k {
	case crash:
		l.p.crash()
		return false, false
	case lostAnswer:
		l.r.w.unheard(l.p)
		l.hush()
		return true, false
	case cut:
		return false, false
	case inPieces:
		l.answer(answer[:len(answer)/2])
		arrives = l.r.hold(l.p, pieceAfter, "rest of the answer of "+what, nothing)
		l.p.freeze()
		l.answer(answer[len(answer)/2:])
		return arrives, false
	case fading:
		arrives = l.r.hold(l.p, fadingBy, "answer of "+what, nothing)
		l.p.freeze()
		l.answer(answer)
		l.r.isolate(l.p, k)
		return arrives, false
	}
	if d := answerBy[k]; d > 0 {
		return false, l.r.hold(l.p, d, "answer of "+what, nothing)
	}
	return true, true
}

// subscribe is SUBSCRIBE. Its confirmation comes as a message does.
func (l *link) subscribe(channels []string) (answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.channels) == 0 {
		go l.listen() // ends with the link, or with the run
	}
	for _, c := range channels {
		l.channels[c] = true
		l.frames = append(l.frames, proto.Array(proto.String("subscribe"), proto.String(c), proto.Int(len(l.channels))))
	}
	poke(l.heard)
	return ""
}

func (l *link) subscribed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.channels) > 0
}

func (l *link) hears(channel string) (heard, atReplica bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.channels[channel] && !l.silent, l.atReplica
}

// hear takes a message from the server.
func (l *link) hear(text string) {
	l.mu.Lock()
	for c := range l.channels { // there is only one
		l.frames = append(l.frames, proto.Array(proto.String("message"), proto.String(c), proto.String(text)))
	}
	l.mu.Unlock()
	poke(l.heard)
}

// listen passes on what the server writes by itself.
func (l *link) listen() {
	for {
		l.mu.Lock()
		frame := ""
		if len(l.frames) > 0 && !l.isGone() {
			frame, l.frames = l.frames[0], l.frames[1:]
		}
		l.mu.Unlock()
		if frame != "" {
			if !l.isSilent() && !l.pass(frame) {
				l.cut()
				return
			}
			continue
		}
		select {
		case <-l.heard:
		case <-l.gone:
			return
		case <-l.p.end:
			return
		}
	}
}

// pass hands on one message. It reports false at the end of the connection.
func (l *link) pass(frame string) (goesOn bool) {
	parts, _ := proto.ReadArray(frame)
	text, _ := proto.ReadString(parts[len(parts)-1])
	words := strings.Fields(text)
	if len(words) < 2 { // a confirmation
		l.p.freeze()
		l.answer(frame)
		return true
	}
	what := "hear " + words[0] + " " + words[len(words)-1]
	k := l.p.pass(what, messageKinds, nothing)
	switch k {
	case lostMessage:
		return true
	case cut, over:
		return false
	case twice:
		l.answer(frame)
	case crash:
		l.p.crash()
		return false
	default:
		if goesOn, arrives := l.before(k, what); !arrives {
			return goesOn
		}
	}
	l.p.freeze()
	l.r.w.log(l.p, what)
	l.answer(frame)
	return true
}

// describe names a command in plans. A command that only logs in has no gate.
func (l *link) describe(cmd []string) (what string, kinds []kind) {
	name := strings.ToLower(cmd[0])
	switch name {
	case "hello", "auth", "client", "select", "script", "quit", "readonly", "info":
		return name, nil
	case "ping", "wait":
		return name, minor
	case "subscribe":
		return name, subscribeKinds
	case "evalsha":
		if _, ok := l.r.known(cmd[1]); !ok {
			return name, nil // its script has a gate when it comes
		}
		return scriptName(cmd[1]) + " " + keyOf(cmd, 3), scriptKinds
	case "eval":
		return scriptName(hash(cmd[1])) + " " + keyOf(cmd, 3), requestKinds
	}
	return name + " " + keyOf(cmd, 1), requestKinds
}

func scriptName(sha string) string {
	if s, ok := library()[sha]; ok {
		return s.name
	}
	return "redislock"
}

// keyOf returns the key in braces of an argument, or "".
func keyOf(cmd []string, i int) string {
	if i >= len(cmd) {
		return ""
	}
	_, key, _ := strings.Cut(cmd[i], "{")
	key, _, _ = strings.Cut(key, "}")
	return key
}

// writes reports whether a command may change anything.
func writes(name string) bool {
	return !slices.Contains([]string{"get", "getrange", "exists", "ping", "subscribe", "wait"}, strings.ToLower(name))
}

var ownerIDs = regexp.MustCompile(`(\$\d+ )?[A-Za-z0-9_-]{22,}`)

// brief is an answer in a story. Owner ids are left out, which are random, and
// how long they are with a text that has the time.
func brief(answer string) string {
	text := strings.ReplaceAll(answer, "\r\n", " ")
	if before, _, found := strings.Cut(text, `{"v":`); found {
		text = before + "..."
	}
	text = ownerIDs.ReplaceAllString(text, "~")
	return strings.TrimSpace(text[:min(len(text), 70)])
}
