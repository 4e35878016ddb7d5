package turns

import (
	"context"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// A Group takes turns on several keys for one caller. The group asks for as
// many keys as it can in one request, and waits for the others one after the
// other.
//
// The caller takes the keys in sorted order. While it waits for one, it holds
// only keys in front of it, so two callers never wait for each other. Floors
// are taken only where that needs no wait, and given back before any wait.
//
// A nil Group takes no turns. The methods are not safe for concurrent use. Drop
// is the last call.
//
// Invariant: the turns are exclusive. ahead are turns on keys[:len(ahead)].
// Each has the floor of its gate. All but the last have a grant that has not
// begun.
type Group struct {
	*gates
	set    *Settings
	events Events
	inside func(key string) bool // whether the caller takes key without the group, and may have to wait
	keys   []string              // that are still to take
	ahead  []waiter

	// How a caller with one attempt was refused.
	refused *Turn // nil: it was not
	refusal Refusal
	err     error
}

// Take is [Turn.Take] for the next key. Take returns a nil turn if the caller
// must take the key by itself. A refusal may be for a key behind it, at.
func (g *Group) Take(ctx context.Context, key string, p Patience) (t *Turn, at string, r Refusal, err error) {
	for g != nil && len(g.keys) > 0 && g.keys[0] < key { // those were inside
		g.keys = g.keys[1:]
	}
	if g == nil || len(g.keys) == 0 || g.keys[0] != key {
		return nil, key, r, nil
	}
	if len(g.ahead) == 0 {
		g.fetch(ctx, p)
	}
	if g.refused != nil {
		return g.refused, g.refused.gate.key, g.refusal, g.err
	}
	g.keys = g.keys[1:]
	if len(g.ahead) == 0 {
		return nil, key, r, nil
	}
	w := &g.ahead[0]
	g.ahead = g.ahead[1:]
	w.ctx, w.patience = ctx, p
	if !w.beginAhead(ctx) {
		g.Drop() // before w waits
		r, err = w.take(ctx, true)
	}
	return w.Turn, key, r, err
}

// Drop gives up the turns that were not taken.
func (g *Group) Drop() {
	if g != nil {
		quitAll(g.ahead)
		g.ahead = nil
	}
}

func quitAll(ws []waiter) {
	for i := range ws {
		ws[i].quit()
	}
}

// fetch takes the next turns with one request. fetch blocks until the answer,
// at most for a try limit.
func (g *Group) fetch(ctx context.Context, p Patience) {
	if g.outages.on.Load() != 0 {
		return // a turn by itself knows what to do in an outage
	}
	g.ahead = g.floors(ctx, p)
	switch whole := len(g.ahead) == min(len(g.keys), locker.MaxSeveral); {
	case p.Once && !whole:
		g.Drop() // it ends at a key that is busy here, see waiter.join
	case len(g.ahead) > 1:
		g.ask(ctx)
	}
}

// floors takes the floors of the next gates, up to the first that is not free,
// or the first key that is inside.
func (g *Group) floors(ctx context.Context, p Patience) (ws []waiter) {
	keys := g.keys[:min(len(g.keys), locker.MaxSeveral)]
	ws = make([]waiter, 0, len(keys))
	for _, key := range keys {
		if g.inside(key) || !g.calls.enter() {
			break
		}
		t := newTurn(ctx, g.gates, key, g.set, g.events, p)
		w := waiter{Turn: &t}
		if !t.gate.joinFree(w.Turn) {
			t.Leave()
			break
		}
		ws = append(ws, w)
	}
	return ws
}

// ask asks for the keys of ahead, which have their floors, in one request.
// Those that go on stay ahead: the turns with a grant, and behind them the one
// that has to wait. ask ends the others. After a panic Drop ends what is ahead.
func (g *Group) ask(ctx context.Context) {
	ws := g.ahead
	first, bids, claims := &ws[0], make([]*bid, len(ws)), make([]*locker.Claim, len(ws))
	sent := time.Now()
	limit := first.tryLimit(sent)
	for i := range ws {
		t := ws[i].Turn
		bids[i] = t.newBid(sent)
		claims[i] = &bids[i].claim
		t.gate.beginTry(bids[i], false, sent)
		t.attempts++
	}
	as, held, err := g.store.AcquireAll(first.limits.Within(ctx, limit), claims, !first.patience.Once)
	h := heardByTry(err, time.Since(sent), limit, ctx.Err() == nil && limit == limits.Try(g.set.TTL))
	if err != nil && !first.outages.together(claims) {
		h = nothing // one error of several nodes does not tell which of them
	}
	_, err = usable(err)
	defer first.noteTry(ctx, h, err) // last, because a logger may panic
	n := g.answered(ws, bids, sent, as, held, err)
	if n < len(ws) && first.patience.Once && held < len(as) && as[held].Lingers {
		g.Drop()
		g.keys = g.keys[:1] // the caller asks for one key after the other
		return
	}
	if n < len(ws) && first.patience.Once {
		w := &ws[max(n, held%len(ws))]
		g.refused = w.Turn
		g.refusal, g.err = w.refusal(time.Now())
		g.Drop()
		return
	}
	last := min(n+1, len(ws))
	g.ahead = ws[:last]
	quitAll(ws[last:])
}

// answered tells the gates of ws what AcquireAll has answered. answered returns
// how many turns in front have a grant.
func (g *Group) answered(ws []waiter, bids []*bid, sent time.Time, as []locker.Answer, held int, err error) (n int) {
	for i := range ws {
		switch w := &ws[i]; {
		case err != nil:
			w.unansweredAhead(i < len(as) && as[i].Queued, err)
		case i == held:
			w.heldAhead(as[i])
		case !as[i].Acquired:
			// The store may give it back by itself. Its owner id must not be
			// used again (law 2).
			w.update(func(c *contender, _ time.Time) *bid { return c.dropBid() })
		case i > n: // behind an answer that was too slow
			w.unansweredAhead(false, fmt.Errorf("%w: the answer was too slow", locker.ErrUnavailable))
		case w.won(bids[i], sent, as[i].Token) != nil:
			n++
		}
	}
	return n
}

// NewGroup returns the group for keys, in sorted order. The caller takes those
// that are inside without the group. NewGroup returns nil if the keys must be
// taken one after the other.
func NewGroup(e *Engine, keys []string, inside func(key string) bool, s *Settings, ev Events) *Group {
	if !e.can.Several || len(keys) < 2 {
		return nil
	}
	return &Group{gates: &e.gates, set: s, events: ev, inside: inside, keys: keys}
}
