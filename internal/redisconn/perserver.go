package redisconn

import "sync"

// perServer has a T for each server, by its address. The zero perServer is
// ready, and safe for concurrent use.
type perServer[T any] struct {
	mu  sync.Mutex // guards all
	all map[string]T
}

// of returns the T of a server, which fresh makes at first.
func (p *perServer[T]) of(addr string, fresh func() T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.all[addr]
	if !ok {
		if p.all == nil {
			p.all = make(map[string]T)
		}
		t = fresh()
		p.all[addr] = t
	}
	return t
}
