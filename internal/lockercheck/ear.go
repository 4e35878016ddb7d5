package lockercheck

import (
	"sync"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// ear is the Waker of one locker. It records its calls.
type ear struct {
	janitor *lockerkit.Janitor // of the locker

	mu sync.Mutex // guards all below

	grants map[string]grant // by owner
	wanted map[string]int   // by key
	woken  map[string]int   // by key, "" for WakeAll, until somebody looks
	wakes  map[string]int   // the same, never reset
	kept   map[string]kept  // by owner
}

// kept is the content of a Recorded.
type kept struct{ key, value string }

// grant is the content of a Granted.
type grant struct {
	locker.Offer
	key   string
	times int
}

func newEar() *ear {
	return &ear{
		grants: make(map[string]grant),
		wanted: make(map[string]int), woken: make(map[string]int), wakes: make(map[string]int),
		kept: make(map[string]kept),
	}
}

func (e *ear) Granted(key, owner string, o locker.Offer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grants[owner] = grant{o, key, e.grants[owner].times + 1}
}

// Orphaned does what the guard does.
func (e *ear) Orphaned(key, owner string) {
	e.janitor.Add(lockerkit.Cleanup{Claim: &locker.Claim{Key: key, Owner: owner}})
}

func (e *ear) Wanted(key string) { e.count(e.wanted, key) }
func (e *ear) Wake(key string)   { e.count(e.woken, key); e.count(e.wakes, key) }
func (e *ear) WakeAll()          { e.count(e.woken, ""); e.count(e.wakes, "") }

func (e *ear) Revoked(string, string) {}

func (e *ear) Recorded(key, owner, value string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept[owner] = kept{key, value}
}

// keptFor returns the content of the last Recorded for c.
func (e *ear) keptFor(c *locker.Claim) (key, value string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.kept[c.Owner]
	return k.key, k.value, ok
}

func (e *ear) count(in map[string]int, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	in[key]++
}

// granted returns the content of the last Granted for c.
func (e *ear) granted(c *locker.Claim) (g grant, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok = e.grants[c.Owner]
	return g, ok
}

// wakened reports whether a wake-up for key has come since the last call of
// wakened.
func (e *ear) wakened(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.woken[key] + e.woken[""]
	delete(e.woken, key)
	delete(e.woken, "")
	return n > 0
}

// timesWoken returns the number of wake-ups for key. It is for many waiting
// claims, each of which must try.
func (e *ear) timesWoken(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wakes[key] + e.wakes[""]
}

// timesWokenFor returns the number of wake-ups for key alone.
func (e *ear) timesWokenFor(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wakes[key]
}

// timesWanted returns the number of times that the holder of key was told that
// others wait.
func (e *ear) timesWanted(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted[key]
}
