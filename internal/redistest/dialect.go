package redistest

import (
	"bufio"
	"context"
	"crypto/sha1" // how Redis names scripts
	"encoding/hex"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"
)

// Dialect says in what a server differs from Redis, as some servers do that
// speak its protocol. It runs scripts itself, one command at a time on the real
// server, and passes all else on.
type Dialect struct {
	NoKeyless bool // refuses scripts without keys
	NoPublish bool // refuses PUBLISH inside scripts
	Steps     bool // runs the commands of other clients between those of a script

	// Info is the answer to INFO of a section. The server answers all others.
	Info map[string]string

	// Slow is how long each command of a script takes. Meanwhile keys end.
	Slow time.Duration

	// Lua is the program that runs scripts, such as "lua5.4", with the numbers
	// of Dragonfly. "" is an interpreter of Lua 5.1 in Go.
	Lua string
}

// StartDialect starts a server of a dialect in front of the one at upstream,
// and returns its address. It ends with t.
func StartDialect(t testing.TB, upstream string, d Dialect) (addr string) {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	d.serve(t, s, func() (net.Conn, error) { return net.Dial("tcp", upstream) })
	return s.Addr().String()
}

// MiniredisDialect is [Miniredis] with a server of a dialect in front. The time
// of the bubble stands still while a program of [Dialect.Lua] works.
func MiniredisDialect(t testing.TB, d Dialect) *redis.Client {
	t.Helper()
	m, opts := InMemory(t.Cleanup)
	s := server.NewServerConn()
	upstream := &dialer{dialTo: m.Dial}
	t.Cleanup(upstream.close)
	d.serve(t, s, upstream.dial)
	front := &dialer{dialTo: func() (net.Conn, error) {
		client, conn := net.Pipe()
		s.ServeConn(conn)
		return client, nil
	}}
	t.Cleanup(front.close)
	opts.Dialer = func(context.Context, string, string) (net.Conn, error) { return front.dial() }
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// serve makes s a server of the dialect until t ends.
func (d Dialect) serve(t testing.TB, s *server.Server, upstream func() (net.Conn, error)) {
	t.Helper()
	t.Cleanup(s.Close)
	i := &interpreter{Dialect: d, dial: upstream, running: make(chan struct{}, 1), scripts: map[string]string{}}
	if d.Lua != "" {
		i.lua = startLua(t, d.Lua)
	}
	s.SetPreHook(i.serve)
}

// interpreter is a server of a dialect.
type interpreter struct {
	Dialect

	dial  func() (net.Conn, error) // to the real server
	lua   *luaProgram              // nil for the interpreter in Go; used only while running is held
	peers sync.Map                 // the speaker of each *server.Peer

	running chan struct{} // full for a script, unless it runs in steps, and for any other command
	mu      sync.Mutex    // guards scripts; never held across I/O
	scripts map[string]string
}

// serve answers one command. It runs in the goroutine of the client.
func (i *interpreter) serve(p *server.Peer, name string, args ...string) bool {
	s, err := i.speaker(p)
	if err != nil {
		p.WriteError("ERR " + err.Error())
		return true
	}
	command := append([]string{name}, args...)
	switch {
	case name == "HELLO":
		p.WriteError("ERR unknown command 'HELLO'")
	case name == "INFO" && len(args) == 1 && i.Info[args[0]] != "":
		p.WriteBulk(i.Info[args[0]])
	case name == "EVAL", name == "EVALSHA":
		p.WriteRaw(i.eval(s, name, args))
	case name == "SUBSCRIBE", s.listens:
		s.listen(p)
		_ = proto.Write(s.conn, command)
	default:
		if !i.Steps {
			i.running <- struct{}{}
			defer func() { <-i.running }()
		}
		p.WriteRaw(s.do(command))
	}
	return true
}

func (i *interpreter) speaker(p *server.Peer) (*speaker, error) {
	if s, ok := i.peers.Load(p); ok {
		return s.(*speaker), nil
	}
	conn, err := i.dial()
	if err != nil {
		return nil, err
	}
	s := &speaker{conn: conn, from: bufio.NewReader(conn)}
	i.peers.Store(p, s)
	p.OnDisconnect(func() { _ = conn.Close() })
	return s, nil
}

// speaker is a client's connection to the real server.
type speaker struct {
	conn    net.Conn
	from    *bufio.Reader
	listens bool // answers come by themselves
}

// listen passes on what the real server says by itself. Its goroutine ends with
// the connection.
func (s *speaker) listen(p *server.Peer) {
	if s.listens {
		return
	}
	s.listens = true
	go func() {
		for {
			message, err := proto.Read(s.from)
			if err != nil {
				return
			}
			p.Block(func(w *server.Writer) { w.WriteRaw(message) })
			p.Flush()
		}
	}()
}

// do sends a command and returns the answer as it came.
func (s *speaker) do(command []string) string {
	if err := proto.Write(s.conn, command); err != nil {
		return proto.Error("ERR " + err.Error())
	}
	answer, err := proto.Read(s.from)
	if err != nil {
		return proto.Error("ERR " + err.Error())
	}
	return answer
}

// eval runs a script and returns the answer.
func (i *interpreter) eval(s *speaker, name string, args []string) string {
	n, err := strconv.Atoi(args[1])
	switch {
	case err != nil || n > len(args)-2:
		return proto.Error("ERR Number of keys is wrong")
	case n == 0 && i.NoKeyless:
		return proto.Error("ERR Lua scripts without any input keys are not supported")
	}
	text, ok := i.script(name, args[0])
	if !ok {
		return proto.Error("NOSCRIPT No matching script. Please use EVAL.")
	}
	if !i.Steps {
		i.running <- struct{}{}
		defer func() { <-i.running }()
	}
	if i.lua != nil {
		return i.lua.run(text, args[2:2+n], args[2+n:], s.do)
	}
	l := lua.NewState()
	defer l.Close()
	l.SetGlobal("KEYS", list(l, args[2:2+n]))
	l.SetGlobal("ARGV", list(l, args[2+n:]))
	l.SetGlobal("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":         func(l *lua.LState) int { return i.call(l, s, true) },
		"pcall":        func(l *lua.LState) int { return i.call(l, s, false) },
		"error_reply":  func(l *lua.LState) int { l.Push(field(l, "err", l.CheckString(1))); return 1 },
		"status_reply": func(l *lua.LState) int { l.Push(field(l, "ok", l.CheckString(1))); return 1 },
	}))
	if err := l.DoString(text); err != nil {
		return proto.Error("ERR " + strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return reply(l.Get(-1))
}

// script returns the text of a script, and remembers it.
func (i *interpreter) script(name, arg string) (text string, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if name == "EVALSHA" {
		text, ok = i.scripts[strings.ToLower(arg)]
		return text, ok
	}
	sum := sha1.Sum([]byte(arg))
	i.scripts[hex.EncodeToString(sum[:])] = arg
	return arg, true
}

// call is redis.call, or redis.pcall, which returns an error as a value.
func (i *interpreter) call(l *lua.LState, s *speaker, raise bool) int {
	var command []string
	for n := 1; n <= l.GetTop(); n++ {
		command = append(command, l.CheckString(n))
	}
	answer := proto.Error("ERR PUBLISH is not allowed in scripts")
	if !i.NoPublish || !strings.EqualFold(command[0], "publish") {
		time.Sleep(i.Slow)
		answer = s.do(command)
	}
	v := value(l, answer)
	if t, ok := v.(*lua.LTable); ok && raise && t.RawGetString("err") != lua.LNil {
		l.RaiseError("%s", t.RawGetString("err"))
	}
	l.Push(v)
	return 1
}

// value makes a value of Lua of an answer.
func value(l *lua.LState, answer string) lua.LValue {
	text, _, _ := strings.Cut(answer[1:], "\r\n")
	switch {
	case text == "-1" && answer[0] != ':': // nil
		return lua.LFalse
	case answer[0] == '+':
		return field(l, "ok", text)
	case answer[0] == '-':
		return field(l, "err", text)
	case answer[0] == ':':
		n, _ := strconv.ParseFloat(text, 64)
		return lua.LNumber(n)
	case answer[0] == '$':
		bulk, _ := proto.ReadString(answer)
		return lua.LString(bulk)
	}
	t := l.NewTable()
	all, _ := proto.ReadArray(answer)
	for _, one := range all {
		t.Append(value(l, one))
	}
	return t
}

func field(l *lua.LState, name, text string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString(name, lua.LString(text))
	return t
}

func list(l *lua.LState, texts []string) *lua.LTable {
	t := l.NewTable()
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

// reply makes an answer of a value of Lua.
func reply(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LNumber:
		return proto.Int(int(v))
	case lua.LString:
		return proto.String(string(v))
	case lua.LBool:
		if v {
			return proto.Int(1)
		}
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			return proto.Error(string(text))
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			return proto.Inline(string(text))
		}
		var parts []string
		for n := 1; v.RawGetInt(n) != lua.LNil; n++ {
			parts = append(parts, reply(v.RawGetInt(n)))
		}
		return proto.Array(parts...)
	}
	return proto.Nil
}
