package redistest

import (
	"bufio"
	_ "embed"
	"io"
	"os/exec"
	"strconv"
	"testing"

	"github.com/alicebob/miniredis/v2/proto"
)

//go:embed lua.lua
var luaDriver string

// luaProgram is an interpreter of Lua in a process of its own. Calls of run
// must not overlap.
type luaProgram struct {
	to   io.Writer
	from *bufio.Reader
}

// startLua starts the program of that name. It ends with t.
func startLua(t testing.TB, name string) *luaProgram {
	t.Helper()
	cmd := exec.Command(name, "-e", " "+luaDriver) // 5.4 takes a word that begins with - for an option
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("redistest: %v (Debian: apt-get install %s)", err, name)
	}
	t.Cleanup(func() {
		_ = to.Close()
		_ = cmd.Wait()
	})
	return &luaProgram{to, bufio.NewReader(from)}
}

// run runs a script, whose commands call answers, and returns the answer.
func (p *luaProgram) run(text string, keys, args []string, call func(command []string) string) string {
	request := append([]string{text, strconv.Itoa(len(keys))}, keys...)
	err := proto.Write(p.to, append(request, args...))
	for err == nil {
		var message string
		if message, err = proto.Read(p.from); err != nil {
			break
		}
		if message == proto.Inline("done") {
			if message, err = proto.Read(p.from); err == nil {
				return message
			}
			break
		}
		var command []string
		if command, err = proto.ReadStrings(message); err == nil {
			_, err = io.WriteString(p.to, call(command))
		}
	}
	return proto.Error("ERR " + err.Error())
}
