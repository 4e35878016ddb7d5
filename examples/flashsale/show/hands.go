package show

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// The hand of fate: what people do to the instances of a free sale.

const (
	maxAlive   = 8 // instances at once
	maxCut     = 10 * time.Second
	catchLimit = 2 * time.Second        // to catch an instance in mid-step
	breath     = 250 * time.Millisecond // of a buyer whose request failed
	theHolder  = "holder"               // stands for the instance that is in the step
)

// sellFreely lets buyers buy until all requests are answered, and people do
// what they like meanwhile.
func (r *performance) sellFreely() error {
	s := r.sale
	sold := make(chan struct{})
	var buying sync.WaitGroup
	buying.Go(func() {
		defer close(sold)
		s.buyers.crowd(r.ctx, 1, s.cfg.requests, r.pick, r.note)
	})
	defer buying.Wait()
	for stopping := r.selling.Done(); ; {
		select {
		case do := <-r.hands:
			do()
		case <-stopping: // buyers go home, once those who wait for a paused instance have their answers
			stopping = nil
			r.stage.hub.publish(update{Phase: phaseStopping})
			if err := r.wakeAll(); err != nil {
				return err
			}
		case <-sold:
			return r.wakeAll()
		}
	}
}

// note counts an answer. A buyer whose request failed takes a breath: a shop
// that is down is not bought empty by errors.
func (r *performance) note(a answer) {
	r.sale.note(a)
	if a.status == 0 || a.status >= http.StatusInternalServerError {
		shop.Pause(r.selling, breath)
	}
}

// pick chooses the instance for request i as a load balancer does: in turn, and
// none that is paused or has gone. It waits for one if there is none.
func (r *performance) pick(i int) *instance {
	for r.selling.Err() == nil {
		all := r.sale.instances()
		for k := range all {
			if in := all[(i+k)%len(all)]; in.alive() && !in.halted.Load() {
				return in
			}
		}
		shop.Pause(r.selling, tellEvery)
	}
	return nil
}

// wakeAll continues all paused instances.
func (r *performance) wakeAll() (err error) {
	for _, in := range r.sale.instances() {
		if in.halted.Load() && in.alive() {
			err = errors.Join(err, r.sale.resume(in))
		}
	}
	return err
}

// by runs do between others' doings, if the run is one that people may meddle
// with.
func (r *performance) by(ctx context.Context, do func() error) error {
	if r.act > 0 {
		return errors.New("an act is on: it does such things itself; start a sale of your own")
	}
	done := make(chan error, 1)
	select {
	case r.hands <- func() { done <- do() }:
		return <-done
	case <-r.over:
		return errNothingOn
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pauseOne pauses an instance by name, or the one that is in the step.
func (r *performance) pauseOne(ctx context.Context, name string) error {
	return r.withInstance(ctx, name, func(in *instance) error {
		if in.halted.Load() {
			return fmt.Errorf("%s is paused already", in.name)
		}
		if err := r.sale.halt(in); err != nil {
			return fmt.Errorf("pause %s: %w", in.name, err)
		}
		r.show.say(in.name + " is paused (SIGSTOP).")
		return nil
	})
}

func (r *performance) continueOne(ctx context.Context, name string) error {
	return r.withInstance(ctx, name, func(in *instance) error {
		if !in.halted.Load() {
			return fmt.Errorf("%s is not paused", in.name)
		}
		r.show.say(in.name + " goes on (SIGCONT).")
		return r.sale.resume(in)
	})
}

func (r *performance) killOne(ctx context.Context, name string) error {
	return r.withInstance(ctx, name, func(in *instance) error {
		in.kill()
		<-in.gone
		r.show.say(in.name + " is dead (kill -9).")
		return nil
	})
}

// withInstance finds a living instance and does something to it.
func (r *performance) withInstance(ctx context.Context, name string, do func(in *instance) error) error {
	return r.by(ctx, func() error {
		if name == theHolder {
			var err error
			if name, err = r.catch(); err != nil {
				return err
			}
		}
		for _, in := range r.sale.instances() {
			if in.name == name && in.alive() {
				return do(in)
			}
		}
		return fmt.Errorf("no instance %q is alive", name)
	})
}

// catch waits until an instance is in mid-step, and returns its name.
func (r *performance) catch() (string, error) {
	limit := time.NewTimer(catchLimit)
	defer limit.Stop()
	select {
	case name := <-r.sale.prices.asker():
		shop.Pause(r.ctx, min(r.cfg.think/3, tellEvery/2)) // until pages have heard that it holds the key
		return name, nil
	case <-limit.C:
	case <-r.selling.Done():
	}
	return "", errors.New("nobody is in the step now: try again while items are being sold")
}

// spawn starts one more instance.
func (r *performance) spawn(ctx context.Context) error {
	return r.by(ctx, func() error {
		all, alive := r.sale.instances(), 0
		for _, in := range all {
			if in.alive() {
				alive++
			}
		}
		if alive >= maxAlive || len(all) >= 4*maxAlive {
			return fmt.Errorf("%d instances are alive, %d were started: that is enough", alive, len(all))
		}
		in, err := r.sale.addInstance(r.ctx)
		if err != nil {
			return err
		}
		r.show.follow(r.ctx, in)
		r.show.say(in.name + " is new.")
		return nil
	})
}

// cutRedis cuts all instances off Redis for d.
func (r *performance) cutRedis(ctx context.Context, d time.Duration) error {
	if d < 100*time.Millisecond || d > maxCut {
		return fmt.Errorf("cut Redis off for %.1f s: want 0.1 to %.0f", d.Seconds(), maxCut.Seconds())
	}
	return r.by(ctx, func() error {
		if r.sale.cutter == nil {
			return errors.New("a Redis of several servers cannot be cut off here: kill one of them")
		}
		r.sale.cutter.cut(d)
		r.show.cut(d)
		r.show.say(fmt.Sprintf("Redis is cut off for %.1f s.", d.Seconds()))
		return nil
	})
}
