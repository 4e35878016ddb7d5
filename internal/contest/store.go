package contest

import (
	"context"
	"slices"
	"sync"

	"github.com/go-lockguard/guard/internal/judge"
)

// Store is the guarded resource. It has no faults, and two counters for each
// key. The fenced counter takes a token with each read and write, and refuses
// tokens below the highest that it has seen. The other counter trusts the lock.
type Store interface {
	// Read begins a section at the store. ok is false if the fence refuses its
	// token.
	Read(ctx context.Context, key int, token uint64) (r Reading, ok bool, err error)

	// Write writes the value that was read plus one. It writes to the fenced
	// counter if there is a token, and to the other if it is trusted.
	Write(ctx context.Context, key int, token uint64, id string, r Reading, trusted bool) (ok bool, err error)
}

// Reading is the result of a section's read.
type Reading struct{ Fenced, Unfenced int64 }

// Memory is a [Store] for workers of one process.
type Memory struct {
	mu   sync.Mutex // guards keys
	keys map[int]*counters
}

// counters are those of a key.
type counters struct {
	Reading
	token uint64 // the highest
	log   []judge.Entry
}

// at returns the counters of key. The caller has m.mu.
func (m *Memory) at(key int) *counters {
	if m.keys == nil {
		m.keys = map[int]*counters{}
	}
	if m.keys[key] == nil {
		m.keys[key] = &counters{}
	}
	return m.keys[key]
}

// Read implements [Store].
func (m *Memory) Read(_ context.Context, key int, token uint64) (r Reading, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.at(key)
	if token > 0 && token < c.token {
		return Reading{}, false, nil
	}
	c.token = max(c.token, token)
	return c.Reading, true, nil
}

// Write implements [Store].
func (m *Memory) Write(
	_ context.Context, key int, token uint64, id string, r Reading, trusted bool,
) (ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.at(key)
	if trusted {
		c.Unfenced = r.Unfenced + 1
		c.log = append(c.log, judge.Entry{Kind: 'u', ID: id, Token: token, Base: r.Unfenced})
	}
	switch {
	case token == 0:
		return true, nil
	case token < c.token:
		c.log = append(c.log, judge.Entry{Kind: 'r', ID: id, Token: token, Base: r.Fenced})
		return false, nil
	}
	c.token, c.Fenced = token, r.Fenced+1
	c.log = append(c.log, judge.Entry{Kind: 'f', ID: id, Token: token, Base: r.Fenced})
	return true, nil
}

// Log returns the writes to a key, in their order.
func (m *Memory) Log(key int) []judge.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.at(key).log)
}
