package redistest

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// LastDials is a testing.M for goleak.VerifyTestMain. After the tests it waits
// for goroutines of go-redis. They try once a second to reach a dead server,
// and each ends within that second after its client was closed.
type LastDials struct{ *testing.M }

// Run runs the tests, and returns their exit code.
func (m LastDials) Run() int {
	code := m.M.Run()
	stacks := make([]byte, 1<<20)
	for range 200 {
		if !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(".tryDial(")) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return code
}
