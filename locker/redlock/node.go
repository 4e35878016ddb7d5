package redlock

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisnode"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// node is one of the servers, with its health as this locker knows it.
type node struct {
	number       int // from 1, as errors name it
	store        *redislocker.Locker
	janitor      *lockerkit.Janitor // of store
	fence        redisnode.Fence    // of store
	restartDelay time.Duration
	ids          *identities

	mu      sync.Mutex // guards the fields below; never held across I/O
	down    bool       // its last request had no answer
	probing bool       // a request is under way to see whether it is still down
	outTill time.Time  // it has restarted and does not count before then
	twin    error      // set if another node is the same server
}

// clean leaves nothing of c in the node, in the background. late says that a
// request of c may be under way.
func (n *node) clean(c *locker.Claim, late bool) {
	n.janitor.Add(lockerkit.Cleanup{Node: n.store.Node(c.Key), Claim: c, Late: late})
}

var errDown = fmt.Errorf("%w: it did not answer last time, and is being asked again", locker.ErrUnavailable)

// begin reports whether a request may be sent. The request ends with end or
// skip. A node that is down gets one request at a time. This probe finds out
// whether the node is still down.
func (n *node) begin() (probe bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.out(); err != nil {
		return false, err
	}
	if n.down && n.probing {
		return false, errDown
	}
	n.probing = n.down
	return n.down, nil
}

// skip ends a request that was not sent.
func (n *node) skip() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probing = false
}

// end records the result of a request.
func (n *node) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down, n.probing = errors.Is(err, locker.ErrUnavailable), false
}

// out returns why the node does not count if it has started only recently. n.mu
// is held.
func (n *node) out() error {
	if left := time.Until(n.outTill); left > 0 {
		return fmt.Errorf("%w: it started %v ago and counts in %v, when no lease of before can be left "+
			"(WithRestartDelay)",
			locker.ErrUnavailable, (n.restartDelay - left).Round(time.Second), left.Round(time.Second))
	}
	return nil
}

// SetFence implements [redisnode.Node].
func (n *node) SetFence(f redisnode.Fence) { n.fence = f }

// Admit implements [redisnode.Node]. It checks a new connection. A server that
// has restarted has only new connections. So none is used before its restart
// delay is over, unless something between the locker and the server hides the
// restart.
func (n *node) Admit(info map[string]string, err error) error {
	if n.restartDelay == 0 && err != nil {
		// Without the right to INFO, a server that was given twice is not
		// found.
		return nil
	}
	if err != nil {
		return fmt.Errorf("when the server started must be known, give the user +info "+
			"(or see WithRestartDelay): %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.twin != nil
	if n.twin = n.ids.claim(n.number, info["run_id"]); n.twin != nil {
		if !known {
			slog.Warn("redlock: a server was given as two nodes, and counts once", "error", n.twin)
		}
		return n.twin
	}
	if n.restartDelay == 0 {
		return nil
	}
	seconds, err := strconv.Atoi(info["uptime_in_seconds"])
	if err != nil {
		return errors.New("the server does not say when it started (uptime_in_seconds), see WithRestartDelay")
	}
	up := max(0, time.Duration(seconds-1)*time.Second) // INFO's whole seconds may be one too high
	n.outTill = time.Now().Add(n.restartDelay - up)
	return n.out()
}

// identities are the run ids of the servers behind the nodes.
type identities struct {
	mu  sync.Mutex // guards ids
	ids map[string]int
}

// claim records that the node has this run id. It returns an error if another
// node has the same id. An empty id belongs to no node.
func (s *identities) claim(number int, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, n := range s.ids {
		if n == number && old != id {
			delete(s.ids, old)
		}
	}
	switch first := s.ids[id]; {
	case id == "" || first == number:
	case first != 0:
		return invalid("nodes %d and %d are the same server: give each node one of its own", first, number)
	default:
		s.ids[id] = number
	}
	return nil
}
