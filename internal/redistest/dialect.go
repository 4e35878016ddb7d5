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
	own   Scripts                  // that interpreter
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
	return i.own.Run(text, args[2:2+n], args[2+n:], func(command []string) string {
		if i.NoPublish && strings.EqualFold(command[0], "publish") {
			return proto.Error("ERR PUBLISH is not allowed in scripts")
		}
		time.Sleep(i.Slow)
		return s.do(command)
	})
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
