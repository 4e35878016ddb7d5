package main

import (
	"math/rand/v2"
	"time"
)

// aims are at what workers a fault is aimed: anybody; one whose section runs on a key; one that waits for it; or one whose
// section, on any key, has lasted so long that its lease was renewed: a key that was handed over has just the offer's time
// before that, so only such a holder costs a TTL.
var aims = []string{"anybody", "holder", "waiter", "veteran"}

func drawAim(rnd *rand.Rand) string { return aims[rnd.IntN(len(aims))] }

// target returns the worker that a strike is for.
func (n *nemesis) target(s strike) int {
	switch s.aim {
	case "holder":
		return n.find(s, func(e *entry) bool { return e.phase.Load() == inside && int(e.key.Load()) == s.key })
	case "waiter":
		return n.find(s, func(e *entry) bool { return e.phase.Load() == waiting && int(e.key.Load()) == s.key })
	case "veteran":
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if proc := n.find(s, n.renewed); proc >= 0 {
				return proc
			}
		}
	}
	return s.proc
}

// find returns a worker with a caller as wanted; if there is none the one that was drawn, or -1 for a veteran.
func (n *nemesis) find(s strike, wanted func(*entry) bool) int {
	for i := range n.cfg.procs {
		proc := (s.proc + i) % n.cfg.procs
		for caller := range n.cfg.callers {
			if wanted(n.book.ring(proc, caller).current()) {
				return proc
			}
		}
	}
	if s.aim == "veteran" {
		return -1
	}
	return s.proc
}

func (n *nemesis) renewed(e *entry) bool {
	began := e.began.Load()
	return e.phase.Load() == inside && began != 0 && now()-began > int64(n.cfg.ttl*2/5)
}
