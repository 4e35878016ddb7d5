package turns

import (
	"os"
	"sync"
)

// A claim tells people these facts of this process.
var (
	pid      = os.Getpid()
	hostname = sync.OnceValue(func() string {
		name, err := os.Hostname()
		if err != nil {
			return "" // only people read it
		}
		return name
	})
)

// instances are the ids of the lockers of this process, from the first turn to
// Close.
var instances sync.Map

// arrive remembers the id of the locker, which the first claim of the locker
// tells.
func (e *Engine) arrive(instance string) {
	if e.instance.Load() == nil && instance != "" {
		first := instance // a pointer to the parameter would cost an allocation each time
		e.instance.Store(&first)
		instances.Store(first, nil)
	}
}

// depart undoes arrive.
func (e *Engine) depart() {
	if instance := e.instance.Load(); instance != nil {
		instances.Delete(*instance)
	}
}
