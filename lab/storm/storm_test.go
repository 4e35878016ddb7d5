//go:build unix

package main

import (
	"os"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

func TestMain(m *testing.M) {
	if process() {
		return
	}
	os.Exit(etcdtest.Main(m.Run))
}

func TestAStormBreaksNothing(t *testing.T) {
	s := Settings{Store: "etcd", Length: 8 * time.Second, Processes: 3, Callers: 3, TTL: 2 * time.Second}
	modes, once := s, s
	modes.Modes, once.Once = true, true
	for name, s := range map[string]Settings{"exclusive": s, "modes": modes, "once": once} {
		t.Run(name, func(t *testing.T) {
			r, err := run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
			if r.Failed() {
				t.Error("violations, or keys that stay, or nothing was done")
			}
		})
	}
}
