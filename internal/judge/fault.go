package judge

import (
	"fmt"
	"time"
)

// Role is what a worker was to a key when it was killed.
type Role string

// The roles of the dead.
const (
	Holder    Role = "holder"
	Waiter    Role = "waiter"
	Bystander Role = "bystander"
)

// Fault is something that happened to workers, servers or the network. While it
// lasts, To is the end of all time.
type Fault struct {
	Span
	Kind string
	Text string        // for people
	TTL  time.Duration // of the leases of the worker that it hit
	Over time.Time     // the time of day at To
	Err  error

	// Forgets says that servers may lose changes that they have confirmed. Then
	// two may hold a key until the lost leases have ended, and only fencing
	// helps. AtOnce says that all is forgotten when the fault is over: later
	// answers hold.
	Forgets, AtOnce bool

	Roles map[int]Role // of a kill: the role of the dead for each key; nil if not known yet
}

func (f Fault) String() string {
	s := fmt.Sprintf("%s, from %.6f to %.6f", f.Text, float64(f.From)/1e9, float64(f.To)/1e9)
	if f.Roles != nil {
		s += fmt.Sprint(", was ", f.Roles)
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}
