package redistest

import (
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/proto"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// Scripts runs scripts as Redis does, in Lua 5.1. Scripts keeps what costs the
// most: interpreters, and texts that it has compiled. The zero value is ready.
// Scripts is safe for concurrent use.
type Scripts struct {
	idle     sync.Pool // of *state
	compiled sync.Map  // *lua.FunctionProto by text
}

// Run runs a script and returns its answer in the protocol of Redis. call
// answers its commands, in the same protocol.
func (s *Scripts) Run(text string, keys, args []string, call func(command []string) string) (answer string) {
	code, err := s.compile(text)
	if err != nil {
		return scriptError(err)
	}
	l, _ := s.idle.Get().(*state)
	if l == nil {
		l = newState()
	}
	defer s.idle.Put(l)
	l.call = call
	l.SetTop(0)
	l.SetGlobal("KEYS", list(l.LState, keys))
	l.SetGlobal("ARGV", list(l.LState, args))
	l.Push(l.NewFunctionFromProto(code))
	if err := l.PCall(0, 1, nil); err != nil {
		return scriptError(err)
	}
	return reply(l.Get(-1))
}

func (s *Scripts) compile(text string) (*lua.FunctionProto, error) {
	if code, ok := s.compiled.Load(text); ok {
		return code.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "script")
	if err != nil {
		return nil, err
	}
	code, err := lua.Compile(chunk, "script")
	if err == nil {
		s.compiled.Store(text, code)
	}
	return code, err
}

func scriptError(err error) string {
	return proto.Error("ERR " + strings.ReplaceAll(err.Error(), "\n", " "))
}

// state is an interpreter, for one script at a time.
type state struct {
	*lua.LState

	call func(command []string) string // of the script that runs
}

func newState() *state {
	l := &state{LState: lua.NewState()}
	l.SetGlobal("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":         func(*lua.LState) int { return l.do(true) },
		"pcall":        func(*lua.LState) int { return l.do(false) },
		"error_reply":  func(s *lua.LState) int { s.Push(field(s, "err", s.CheckString(1))); return 1 },
		"status_reply": func(s *lua.LState) int { s.Push(field(s, "ok", s.CheckString(1))); return 1 },
	}))
	return l
}

// do is redis.call, or redis.pcall, which returns an error as a value.
func (l *state) do(raise bool) int {
	command := make([]string, l.GetTop())
	for n := range command {
		command[n] = l.CheckString(n + 1)
	}
	v := value(l.LState, l.call(command))
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
