package redlock

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// node is one of the servers, and what this locker knows of its health.
type node struct {
	number  int // from 1, as messages name it
	store   *redislocker.Locker
	holdOut time.Duration
	ids     *identities

	mu      sync.Mutex // guards what follows; never held across I/O
	down    bool       // its last request had no answer
	probing bool       // and one is under way that finds out whether it is still so
	outTill time.Time  // it has restarted, and does not count before
	twin    error      // it is another node too
}

var errDown = fmt.Errorf("%w: it did not answer last time, and is being asked again", locker.ErrUnavailable)

// begin says whether a request may be sent, which ends with end: to a node that
// is down one at a time, a probe that finds out whether it still is.
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

// end notes how a request went.
func (n *node) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down, n.probing = errors.Is(err, locker.ErrUnavailable), false
}

// out returns why the node does not count, if it has started a short while ago;
// n.mu is held.
func (n *node) out() error {
	if left := time.Until(n.outTill); left > 0 {
		return fmt.Errorf("%w: it started %v ago and counts in %v, when no lease of before can be left (WithHoldOut)",
			locker.ErrUnavailable, (n.holdOut - left).Round(time.Second), left.Round(time.Second))
	}
	return nil
}

// admit looks at a new connection. A server that has started anew has only new
// ones, so none is used before its hold-out is over, provided that nothing
// between here and there hides the restart.
func (n *node) admit(info string, err error) error {
	if n.holdOut == 0 && err != nil {
		return nil // without the right to INFO a node that was given twice is not found
	}
	if err != nil {
		return fmt.Errorf("when the server started must be known, give the user +info (or see WithHoldOut): %w", err)
	}
	uptime, id := facts(info)
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.twin != nil
	if n.twin = n.ids.claim(n.number, id); n.twin != nil {
		if !known {
			slog.Warn("redlock: a server was given as two nodes, and counts once", "error", n.twin)
		}
		return n.twin
	}
	if n.holdOut == 0 {
		return nil
	}
	if uptime < 0 {
		return errors.New("the server does not say when it started (uptime_in_seconds), see WithHoldOut")
	}
	n.outTill = time.Now().Add(n.holdOut - uptime)
	return n.out()
}

// facts reads what INFO says: for how long the server has been up at least,
// negative if unknown, and its run id.
func facts(info string) (uptime time.Duration, id string) {
	uptime = -1
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "uptime_in_seconds":
			if s, err := strconv.Atoi(value); err == nil {
				uptime = max(0, time.Duration(s-1)*time.Second) // it is a difference of whole seconds
			}
		case "run_id":
			id = value
		}
	}
	return uptime, id
}

// identities are the servers behind the nodes, by their run ids.
type identities struct {
	mu  sync.Mutex // guards ids
	ids map[string]int
}

// claim notes that the node has this run id, and returns an error if another
// has. An empty id is nobody's.
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
