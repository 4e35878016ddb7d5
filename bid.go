package guard

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"os"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// A bid is what a gate contends with for the key: a claim, and where it stands in the store. It belongs to the gate, not
// to one caller: who leaves lets the next in line go on with it, in the place that it has. It is guarded by the gate's
// mutex, but for claim and terms, which never change.
type bid struct {
	claim *locker.Claim
	terms terms

	queued  bool      // it is, or may be, in the store's queue, or was granted there
	seen    time.Time // when the last answered request that saw it in the queue was sent: no offer is older (law 1)
	unclear bool      // a request of it may still be under way
}

// terms are what a grant was acquired with. A turn on it is open to calls that ask for no more.
type terms struct {
	ttl       time.Duration
	noRenewal bool
	fencing   bool
}

// serve reports whether a grant on terms t serves a call that asks for u.
func (t terms) serve(u terms) bool {
	return t.ttl == u.ttl && t.noRenewal == u.noRenewal && (t.fencing || !u.fencing)
}

func (c *config) terms() terms {
	return terms{ttl: c.ttl, noRenewal: c.noRenewal, fencing: c.fencing}
}

// newBid makes a bid under an owner id that nobody has ever used (law 2). It asks the observers of t's guard for the
// traceparent of t's call.
func (t *turn) newBid() *bid {
	cfg := &t.guard.config
	return &bid{terms: t.terms, claim: &locker.Claim{
		Key: t.gate.name, Owner: newOwner(), TTL: cfg.ttl, Fencing: cfg.fencing,
		Holder: Holder{
			Host: hostname(), PID: pid, Since: time.Now(), Name: cfg.name,
			Traceparent: cfg.traceparent(t.ctx),
		},
	}}
}

// abandon leaves it to the locker that nothing of b stays in the store. A nil b is none.
func (b *bid) abandon(l locker.Locker) {
	if b != nil && (b.queued || b.unclear) {
		l.Abandon(b.claim, b.unclear)
	}
}

// newOwner returns locker.OwnerLen random base64url characters: 128 bits.
func newOwner() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	var text [locker.OwnerLen]byte
	base64.RawURLEncoding.Encode(text[:], b[:])
	return string(text[:])
}

var (
	pid      = os.Getpid()
	hostname = sync.OnceValue(func() string {
		name, err := os.Hostname()
		if err != nil {
			return "" // it is only for people to read
		}
		return name
	})
)

// traceparent is the first that an observer has for ctx.
func (c *config) traceparent(ctx context.Context) string {
	for _, o := range c.observers {
		if t := o.Traceparent(ctx); t != "" {
			return t
		}
	}
	return ""
}
