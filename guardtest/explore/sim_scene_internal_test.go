package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/internal/limits"
)

// sim is a scenario of the guard's own requests. play starts its processes.
type sim struct {
	name  string
	play  func(s *scene)
	on    *rowKind              // nil: Redis
	only  func(k *rowKind) bool // the stores that can have it; nil: all
	given string                // a fault of each run, as in a plan
	far   time.Duration         // of a round trip to the store
	waits bool                  // for a replica, so that a failover loses nothing
	hears bool                  // messages, which the store must bring
	slack time.Duration         // that a process may wait for what never comes
	ttl   time.Duration         // 0: simTTL

	nth  int           // of the single faults is the first to be tried
	calm time.Duration // what the last process takes without a fault
}

// fits reports whether the store of c can have the scenario.
func (c *sim) fits() bool {
	if c.only != nil && !c.only(c.on) {
		return false
	}
	return c.on == nil || !c.waits && (c.on.ears || !c.hears)
}

// scenario is c for Test.
func (c *sim) scenario(w *World) {
	s := &scene{sim: c, w: w, net: w.leases.(simNet), halls: make(map[string]*hall)}
	c.ttl = cmp.Or(c.ttl, simTTL)
	w.ttl = c.ttl
	s.net.begin(c)
	c.play(s)
	w.Check(s.check)
}

// scene is one run of a sim, and judges it.
type scene struct {
	*sim

	w   *World
	net simNet

	mu    sync.Mutex // guards the fields below
	halls map[string]*hall
	open  int // guards
	errs  []error
}

// fail notes what must not be.
func (s *scene) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

// check looks at what is left, a minute after the end.
func (s *scene) check() error {
	for _, what := range s.net.left(false) {
		s.fail("LEFT after a minute: %s", what)
	}
	return errors.Join(s.errs...)
}

// exact reports whether the server still has all that it confirmed, so that
// nothing is excused.
func (s *scene) exact() bool { return s.net.lastLoss().IsZero() }

// note adds a line to the story.
func (s *scene) note(ctx context.Context, format string, args ...any) { s.w.Log(ctx, format, args...) }

// process runs fn in a process of its own, with a guard that is closed behind
// it. It takes no longer than all do without a fault, but for what faults cost.
func (s *scene) process(name string, fn func(ctx context.Context, g *guard.Guard) error) {
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	s.w.Go(name, func(ctx context.Context, g *guard.Guard) error {
		p, err := processOf(ctx)
		if err != nil {
			return err
		}
		start := time.Now()
		err = fn(ctx, g.With(guard.WithTTL(s.ttl), guard.WithMaxWait(10*s.ttl)))
		p.freeze() // what a dead process returns says nothing
		if err != nil {
			s.note(ctx, "error: %.100v", err)
			if s.w.plan.spares(name) && s.exact() && !errors.Is(err, guard.ErrInterrupted) {
				s.fail("ERROR: %s, whom no fault meets: %v", name, err)
			}
		}
		s.took(name, time.Since(start))
		closed := g.Close(ctx)
		p.freeze()
		s.closed()
		if s.w.Calm() {
			return errors.Join(err, closed)
		}
		return nil
	})
}

// took judges how long a process took.
func (s *scene) took(name string, d time.Duration) {
	s.mu.Lock()
	if len(s.w.plan) == 0 {
		s.calm = max(s.calm, d)
	}
	calm := s.calm
	s.mu.Unlock()
	if cost := s.slack + s.w.plan.cost(s.ttl); d > calm+cost {
		s.fail("LATE: %s takes %v, all without a fault %v: the faults may cost %v", name, d, calm, cost)
	}
}

// closed looks at what the last Close leaves behind.
func (s *scene) closed() {
	s.mu.Lock()
	s.open--
	last := s.open == 0
	s.mu.Unlock()
	if !last || !s.w.Calm() {
		return
	}
	for _, what := range s.net.left(true) {
		s.fail("LEFT behind the last Close, without a fault: %s", what)
	}
}

// guest is a function that runs under a key.
type guest struct {
	name  string
	ctx   context.Context
	p     *process
	limit int
	since time.Time
}

// AtMost implements judge.Guest.
func (g *guest) AtMost() int { return g.limit }

// hall has the judge of one key.
type hall struct {
	s   *scene
	key string

	mu    sync.Mutex // guards the fields below
	floor judge.Floor[*guest]
	freed time.Time // when the last guest left
	last  uint64    // token
}

// idle is how long a key may be free without a fault, while somebody waits for
// it who is not far from the store: a look, a try, and 300 ms of WithMinHold.
const idle = 700 * ms

func (s *scene) hall(key string) *hall {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.halls[key]
	if h == nil {
		h = &hall{s: s, key: key}
		h.floor.Excused = h.excused
		s.halls[key] = h
	}
	return h
}

// excused reports whether g is not promised to be alone: its ctx has ended, or
// the server has lost what it knew of g's lease, for as long as that may last.
func (h *hall) excused(g *guest) bool {
	lost := h.s.net.lastLoss()
	h.s.w.mu.Lock()
	defer h.s.w.mu.Unlock()
	return g.ctx.Err() != nil || g.p.dead || !lost.IsZero() && g.since.Before(lost.Add(h.s.ttl+time.Second))
}

// enter lets in a guest. A token of 0 is none. A guest that asked for the key
// at a time, which may be zero, must not have waited for nobody.
func (h *hall) enter(g *guest, token uint64, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if asked.Before(h.freed) && !asked.IsZero() {
		asked = h.freed
	}
	if d := time.Since(asked); len(h.floor.In) == 0 && !asked.IsZero() && d > idle+4*h.s.far && h.s.w.Calm() {
		h.s.fail("IDLE: %s was free for %v while %s waited, without a fault", h.key, d, g.name)
	}
	if n, most := h.floor.Enter(g); n > most {
		var in []string
		for _, o := range h.floor.In {
			if !h.excused(o) {
				in = append(in, o.name)
			}
		}
		h.s.fail("EXCLUSION: %d at once under %s, where %d may be: %v", n, h.key, most, in)
	}
	if token > 0 && token <= h.last && !h.excused(g) {
		h.s.fail("TOKEN: %s has %d, after %d", g.name, token, h.last)
	}
	h.last = max(h.last, token)
}

func (h *hall) leave(g *guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.floor.Leave(func(o *guest) bool { return o == g })
	h.freed = time.Now()
}

// stay is a function under a key, of which limit may run at once.
type stay struct {
	key   string
	limit int           // 0 and 1: alone
	hold  time.Duration // how long it works
	fence bool          // it has a token, which is judged
	asked time.Time     // when the call for it began; set by under
}

// do is what the function does.
func (s *scene) do(ctx context.Context, y stay) error {
	p, err := processOf(ctx)
	if err != nil {
		return err
	}
	var token uint64
	if y.fence {
		if token, err = guard.FencingToken(ctx); err != nil {
			return err
		}
	}
	died := p.step("inside " + y.key)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g := &guest{name: p.name, ctx: ctx, p: p, limit: y.limit, since: time.Now()}
	h := s.hall(y.key)
	h.enter(g, token, y.asked)
	s.note(ctx, "INSIDE %s", y.key)
	if died {
		p.crash()
		p.freeze()
	}
	if y.hold > 0 {
		select {
		case <-time.After(limits.Apart(y.hold)):
		case <-ctx.Done():
		}
	}
	died = p.step("outside " + y.key)
	h.leave(g)
	if died {
		p.crash()
		p.freeze()
	}
	s.note(ctx, "outside %s", y.key)
	return context.Cause(ctx)
}

// step is a gate of the function. died says that the process is to die there.
func (p *process) step(what string) (died bool) {
	switch k := p.pass(what, stayKinds, outside); k {
	case pause:
		if p.stand(k, outside) == over {
			<-p.end
		}
	case over:
		<-p.end
	case crash:
		return true
	}
	return false
}

// spares reports whether no fault meets that process itself.
func (p plan) spares(process string) bool {
	return !slices.ContainsFunc(p, func(f fault) bool {
		return strings.HasPrefix(f.id, process+"/") || lostWrites[f.k] > 0 || f.k == forgotten
	})
}

// cost is how much longer the faults of a plan may make any process wait.
func (p plan) cost(ttl time.Duration) (d time.Duration) {
	for _, f := range p {
		d += f.cost(ttl)
	}
	return d
}

// trifle is a look, a try and another connection.
const trifle = 1500 * time.Millisecond

// cost is what f costs. Some faults hold the process itself up, or one that has
// the key. Then the others wait until its lease has ended, and for an offer
// that nobody takes. A late renewal holds nobody up.
func (f fault) cost(ttl time.Duration) time.Duration {
	lost := ttl + 3*time.Second
	if step, _ := f.step(); lateBy[f.k] > 0 && strings.Contains(step, "/renew") {
		return lateBy[f.k] + trifle
	}
	if d := max(lateBy[f.k], answerBy[f.k], unseenFor[f.k], outages[f.k], splits[f.k], -clockBy[f.k]); d > 0 {
		return d + lost
	}
	switch f.k {
	case yield, swap, twice, refused, inPieces, forgotten:
		return trifle
	case pause:
		return ttl*5/4 + lost
	case longPause:
		return 2*ttl + time.Second + lost
	}
	return lost
}
