package redlock_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dialsEnd{m}) }

// dialsEnd runs the tests and then waits for goroutines of go-redis. They try
// once a second to reach a dead server. Each ends within that second after its
// client was closed.
type dialsEnd struct{ *testing.M }

func (m dialsEnd) Run() int {
	code := m.M.Run()
	stacks := make([]byte, 1<<20)
	for range 50 {
		if !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(".tryDial(")) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return code
}
