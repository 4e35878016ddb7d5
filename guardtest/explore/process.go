package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/goroutine"
	"github.com/go-lockguard/guard/internal/limits"
)

// gate is a goroutine that is about to do something outside its process.
type gate struct {
	p       *process
	what    string
	by      int    // goroutine; 0 until the controller has asked
	id      string // unique in a run; set by the controller
	kinds   []kind // of faults that may come here
	touches touched
	open    chan kind
	yielded []kind // to whom
}

// behind is 1 if the other goroutines of the process go first.
func (g *gate) behind() int {
	if slices.Contains(g.yielded, swap) {
		return 1
	}
	return 0
}

// process is one call of a function of the scenario, with a guard of its own.
type process struct {
	w      *World
	name   string
	guard  *guard.Guard
	ctx    context.Context
	cancel context.CancelFunc
	gone   chan struct{} // closed by a crash
	end    chan struct{} // closed after the check, for one process after the other

	// Guarded by w.mu.
	gates    map[string]int // that it has come to, by the short name of their steps
	low      bool           // others go first
	waited   bool           // the run waits for its end
	dead     bool
	returned bool      // its goroutine has ended
	done     bool      // its function has returned
	cut      bool      // a goroutine was ended by the run, inside a Step
	stands   time.Time // until when it stands still
	atCrash  []io.Closer
}

type processKey struct{}

func processOf(ctx context.Context) (*process, error) {
	p, ok := ctx.Value(processKey{}).(*process)
	if !ok {
		return nil, errors.New("explore: a ctx of no process: pass on the ctx that the function got")
	}
	return p, nil
}

// run calls fn in p. done gets its error.
func (p *process) run(fn func(context.Context, *guard.Guard) error, waited bool) (done chan error) {
	w := p.w
	done = make(chan error, 1)
	w.mu.Lock()
	if p.waited = waited; waited {
		w.running++
	}
	w.mu.Unlock()
	go func() { // ends with fn, or with the run
		defer func() {
			if r := recover(); r != nil {
				w.fail(fmt.Errorf("process %s panics: %v\n%s", p.name, r, ownCode(string(debug.Stack()))))
				done <- fmt.Errorf("panic: %v", r)
			}
			p.leave()
		}()
		if p.pass("start", minor, nothing) == over {
			return
		}
		err := fn(p.ctx, p.guard)
		p.note(&p.done)
		if p.pass("return", minor, nothing) == over {
			return
		}
		w.log(p, outcome("returns", err))
		if err != nil && w.Calm() {
			w.fail(fmt.Errorf("process %s fails, though nothing is broken: %w", p.name, err))
		}
		done <- err
	}()
	return done
}

// leave notes that the goroutine of p has ended.
func (p *process) leave() {
	p.w.mu.Lock()
	p.unwait()
	p.returned = true
	p.w.mu.Unlock()
	p.w.notify()
}

func (p *process) note(what *bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	*what = true
}

// cutOff ends the goroutine, because the run is over.
func (p *process) cutOff() {
	p.note(&p.cut)
	runtime.Goexit()
}

// held returns the keys of the leases that a process has left behind whose code
// has come to its end everywhere. held needs w.mu, and a run that is over.
func (p *process) held() (keys []string) {
	if !p.done || p.dead || p.cut {
		return nil
	}
	for _, s := range p.guard.Snapshot(false) {
		if slices.ContainsFunc(s.Holds, func(h guard.HoldState) bool { return !h.Cooldown && !h.Idle }) {
			keys = append(keys, s.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// unwait needs w.mu.
func (p *process) unwait() {
	if p.waited {
		p.waited = false
		p.w.running--
	}
}

// asks has a gate before each verb, because calls wait for a key in the order
// in which they come.
type asks struct {
	guard.NopObserver

	p *process
}

func (a asks) WaitStart(ctx context.Context, i guard.WaitInfo) context.Context {
	a.p.pass("ask for "+i.Key, minor, nothing)
	return ctx
}

// pass waits at a gate until the controller opens it. In a process that has
// died or stands still it waits for longer, at most until the run is over.
func (p *process) pass(what string, kinds []kind, touches touched) kind {
	p.freezeAt(what)
	return p.passUntil(context.Background(), what, kinds, touches)
}

// passUntil is pass that returns over if ctx ends or the process has died.
func (p *process) passUntil(ctx context.Context, what string, kinds []kind, touches touched) kind {
	w := p.w
	g := &gate{p: p, what: what, kinds: kinds, touches: touches, open: make(chan kind)}
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		return over
	}
	w.parked = append(w.parked, g)
	w.mu.Unlock()
	w.notify()
	for {
		select {
		case k := <-g.open:
			if k != whose {
				return k
			}
			g.by = goroutine.Number()
			continue
		case <-ctx.Done():
			w.mu.Lock()
			w.unpark(func(o *gate) bool { return o == g })
			w.mu.Unlock()
		case <-p.end:
		}
		return over
	}
}

// freeze stops the goroutine until the run has ended if its process has died.
// It waits as long as the process stands still.
func (p *process) freeze() { p.freezeAt("") }

// freezeAt is freeze, and says what comes next. Goroutines that wake at once
// and do different things go on in the order of these words. Those that do the
// same go on by their numbers, which are only mostly the same in each run.
func (p *process) freezeAt(what string) {
	for {
		p.w.mu.Lock()
		dead, rest := p.dead, time.Until(p.stands)
		p.w.mu.Unlock()
		switch {
		case dead:
			<-p.end
			return
		case rest <= 0:
			return
		}
		select {
		case <-time.After(limits.Apart(rest)): // with all others of the process, which go on one after the other
			p.passUntil(context.Background(), "wake "+what, minor, nothing)
		case <-p.end:
			return
		}
	}
}

// length is how long k takes.
func (p *process) length(k kind) time.Duration {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if k == pause {
		return p.w.ttl * 5 / 4
	}
	return 2*p.w.ttl + time.Second
}

func (p *process) standFor(d time.Duration) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.stands = time.Now().Add(d)
}

// stand lets the process stand still, for longer than any TTL, and returns over
// if the run has ended meanwhile.
func (p *process) stand(k kind, touches touched) kind {
	d := p.length(k)
	p.standFor(d)
	select {
	case <-time.After(limits.Apart(d)):
	case <-p.end:
	}
	return p.pass("wake", minor, touches)
}

// crash ends the process. Its goroutines stop at their next gates.
func (p *process) crash() {
	w := p.w
	w.mu.Lock()
	p.dead = true
	w.say(p, "DIES", true)
	w.unpark(func(g *gate) bool { return g.p == p })
	p.unwait()
	close(p.gone)
	closers := p.atCrash
	p.atCrash = nil
	w.mu.Unlock()
	for _, c := range closers {
		_ = c.Close()
	}
	w.notify()
}
