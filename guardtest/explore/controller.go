package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"
)

// controller lets the goroutines of one run go on, one at a time. The order is
// the same each time, and the plan says what happens to them.
type controller struct {
	x *search
	w *World
}

// decision is what the controller has done at a gate.
type decision struct {
	id    string
	did   kind
	could []kind // beside did
}

// drive runs the scenario until all has ended, or for its lifetime.
func (c controller) drive() {
	w := c.w
	w.try("the scenario", func() error { c.x.scenario(w); return nil })
	limit := time.NewTimer(lifetime)
	defer limit.Stop()
	var settled <-chan time.Time
	for {
		synctest.Wait()
		if c.x.stalled.Load() {
			select {} // Test has told it, and nothing must go on
		}
		for same := c.number(); len(same) > 0; same = c.number() {
			for _, g := range same {
				g.open <- whose
			}
			synctest.Wait()
		}
		if g, k := c.next(); g != nil {
			if k == flush {
				w.forget()
			}
			if k != goOn {
				length := g.p.length(longPause)
				limit.Reset(lifetime + length)
				if settled != nil {
					settled = time.After(settling + length)
				}
			}
			g.open <- k
			time.Sleep(w.step) // so that no two timers end at once
			continue
		}
		switch ended, background := c.ended(); {
		case ended && !background:
			return
		case ended && settled == nil:
			settled = time.After(settling)
		}
		select {
		case <-w.arrived.C:
		case <-settled:
			if ended, _ := c.ended(); ended {
				return
			}
			settled = nil
		case <-limit.C:
			c.hung()
			return
		}
	}
}

func (c controller) ended() (ended, background bool) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running == 0, w.background
}

// hung notes who has not ended.
func (c controller) hung() {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	var who []string
	for _, p := range w.procs {
		if p.waited {
			who = append(who, p.name)
		}
	}
	w.errs = append(w.errs, fmt.Errorf("%s: not ended after %v of virtual time without a fault",
		strings.Join(who, ", "), lifetime))
}

// next chooses a goroutine that may go on, and what happens to it. next
// returns nil if there is none.
func (c controller) next() (*gate, kind) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrived.Stop()
	now := time.Now()
	for {
		g := c.pick(now)
		if g == nil {
			return nil, goOn
		}
		d := decision{id: g.id, did: w.plan.at(g.id, g.yielded)}
		if !slices.Contains(g.kinds, d.did) {
			d.did = goOn // result.left tells of a fault that g cannot have
		}
		if d.did == yield || d.did == swap {
			w.decisions = append(w.decisions, d)
			g.p.low = g.p.low || d.did == yield
			g.yielded = append(g.yielded, d.did)
			continue
		}
		d.could = c.could(g, d.did, now)
		g.p.low = false
		w.last = g.p
		w.unpark(func(o *gate) bool { return o == g })
		if len(g.kinds) > 0 {
			w.decisions = append(w.decisions, d)
		}
		w.trace.add(g, d.did)
		if d.did != goOn {
			w.faults++
			if d.did != crash && d.did != lostAnswer { // these come behind the effect
				w.say(g.p, d.did.say(g.what), true)
			}
		}
		return g, d.did
	}
}

// number gives each new gate its id. Of gates at one step, that of the older
// goroutine is the first, whichever came first. number returns those that have
// to say first which goroutine it is.
func (c controller) number() (unknown []*gate) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	at := make(map[string][]*gate)
	for _, g := range c.w.parked {
		if g.id == "" {
			step := idOf(g.p.name, short(g.what), 1)
			at[step] = append(at[step], g)
		}
	}
	for _, gates := range at {
		if len(gates) > 1 && gates[0].by == 0 {
			unknown = append(unknown, gates...)
			continue
		}
		slices.SortFunc(gates, func(a, b *gate) int { return cmp.Compare(a.by, b.by) })
		for _, g := range gates {
			name := short(g.what)
			g.p.gates[name]++
			g.id = idOf(g.p.name, name, g.p.gates[name])
		}
	}
	return unknown
}

// could returns what else might happen at g. could needs w.mu.
func (c controller) could(g *gate, did kind, now time.Time) (ks []kind) {
	set := &c.x.set
	others := slices.ContainsFunc(c.w.parked, func(o *gate) bool { return o.p != g.p && !now.Before(o.p.stands) })
	siblings := slices.ContainsFunc(c.w.parked, func(o *gate) bool { return o.p == g.p && o != g && len(o.kinds) > 0 })
	for _, k := range g.kinds {
		switch {
		case k == did, slices.Contains(set.not, k), slices.Contains(g.yielded, k):
		case k == yield && !others, k == swap && !siblings:
		case k == flush && !set.flush:
		default:
			ks = append(ks, k)
		}
	}
	return ks
}

// pick returns the gate whose turn it is: of the process that went on last,
// then of the others in their order, and at last of those that have yielded.
// In a process the order is the same. pick needs w.mu.
func (c controller) pick(now time.Time) *gate {
	rank := func(p *process) int {
		switch {
		case p.low:
			return 2
		case p == c.w.last:
			return 0
		}
		return 1
	}
	var best *gate
	for _, g := range c.w.parked {
		if now.Before(g.p.stands) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(rank(g.p), rank(best.p)), cmp.Compare(g.p.name, best.p.name),
			cmp.Compare(g.behind(), best.behind()), cmp.Compare(g.id, best.id)) < 0 {
			best = g
		}
	}
	return best
}
