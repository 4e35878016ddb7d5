package turns

import (
	"context"
	"fmt"

	"github.com/go-lockguard/guard/locker"
)

// The methods of process as a locker: requests pass to the store, and messages
// to the engine, unless the link is cut. Each claim gets a name when it is first
// sent.

var errCut = fmt.Errorf("%w: the link is cut", locker.ErrUnavailable)

// link cuts p off, or connects it. deaf loses the next message.
func (p *process) link(cut, deaf bool) {
	p.stage.mu.Lock()
	defer p.stage.mu.Unlock()
	p.cut, p.deaf = cut, deaf
}

// passes names the claims, and returns errCut if the link is cut.
func (p *process) passes(claims ...*locker.Claim) error {
	p.stage.mu.Lock()
	defer p.stage.mu.Unlock()
	for _, c := range claims {
		if c != nil && p.stage.claims[c.Owner] == "" {
			p.made++
			p.stage.claims[c.Owner] = fmt.Sprintf("%s/%d", p.name, p.made)
		}
	}
	if p.cut {
		return errCut
	}
	return nil
}

// hears reports whether a message reaches p.
func (p *process) hears() bool {
	p.stage.mu.Lock()
	defer p.stage.mu.Unlock()
	hears := !p.cut && !p.deaf
	p.deaf = false
	return hears
}

func (p *process) Open(w locker.Waker) error {
	p.waker = w
	return p.Locker.Open(p)
}

func (p *process) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := p.passes(c); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	return p.Locker.Acquire(ctx, c, t)
}

func (p *process) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := p.passes(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	p.Locker.Renew(ctx, cs, answered)
}

func (p *process) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if err := p.passes(e.Next); err != nil {
		return locker.Released{}, err
	}
	return p.Locker.Release(ctx, c, e)
}

// Granted loses the message on its way if p does not hear. The store is not
// told, as if the network had taken it.
func (p *process) Granted(key, owner string, o locker.Offer) {
	if p.hears() {
		p.waker.Granted(key, owner, o)
	}
}

func (p *process) Orphaned(key, owner string) { p.waker.Orphaned(key, owner) }

func (p *process) Wanted(key string) {
	if p.hears() {
		p.waker.Wanted(key)
	}
}

func (p *process) Wake(key string) {
	if p.hears() {
		p.waker.Wake(key)
	}
}

func (p *process) WakeAll() {
	if p.hears() {
		p.waker.WakeAll()
	}
}

func (p *process) Revoked(key, owner string) {
	if p.hears() {
		p.waker.Revoked(key, owner)
	}
}

func (p *process) Recorded(key, owner, value string) {
	if p.hears() {
		p.waker.Recorded(key, owner, value)
	}
}
