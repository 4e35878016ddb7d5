// Package lossytest tests stores behind a network that fails.
package lossytest

import (
	"testing"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
)

// RunFaulty runs [lockertest.RunFaulty] with each fault of a
// [faultpipe.Lossy]. store returns the address of a server, and a function
// that makes lockers of one store there, which reach the server at addr.
// Several goroutines call store at once.
func RunFaulty(t *testing.T, store func(t *testing.T) (server string, open func(addr string) locker.Locker)) {
	t.Helper()
	for name, fault := range map[string]func(*faultpipe.Lossy) (mend func()){
		"the server hangs":    func(p *faultpipe.Lossy) func() { return p.Cut(true, true) },
		"requests get lost":   func(p *faultpipe.Lossy) func() { return p.Cut(true, false) },
		"answers get lost":    func(p *faultpipe.Lossy) func() { return p.Cut(false, true) },
		"connections refused": (*faultpipe.Lossy).Refuse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			lockertest.RunFaulty(t, func(t *testing.T) (a, b locker.Locker, breakStore func() (mend func())) {
				t.Helper()
				server, open := store(t)
				p := faultpipe.NewLossy(t, server)
				return open(p.Addr), open(p.Addr), func() (mend func()) { return fault(p) }
			}, lockertest.AtOnce(8))
		})
	}
}
