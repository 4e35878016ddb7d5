package show

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// runLimit ends a run that nobody ends.
const runLimit = 15 * time.Minute

// performance is one run on the stage.
type performance struct {
	stage   *stage
	cfg     config
	id      int
	act     int
	ctx     context.Context // ends with reset, and with the program
	cancel  context.CancelFunc
	selling context.Context // ends with stop too: buyers go home
	stop    context.CancelFunc
	hands   chan func() // what people do to the instances, one after the other; taken while buyers buy
	over    chan struct{}

	sale *sale
	show *show
}

func newPerformance(ctx context.Context, st *stage, cfg config, id, act int) *performance {
	r := &performance{stage: st, cfg: cfg, id: id, act: act, hands: make(chan func()), over: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.selling, r.stop = context.WithTimeout(r.ctx, runLimit)
	return r
}

// play plays the run from its first message to its last.
func (r *performance) play() {
	h := r.stage.hub
	h.begin(opening{Run: describe(r.cfg, r.id, r.act)})
	h.publish(update{Phase: phaseStarting, Numbers: &numbers{Left: r.cfg.stock}})
	res, missed, err := r.perform()
	last := update{Phase: phaseEnded, Missed: missed}
	if r.show != nil {
		last = r.show.take()
		last.Phase, last.Missed = phaseEnded, missed
	}
	switch {
	case r.ctx.Err() != nil:
		last.Error = "stopped before its end"
	case err != nil:
		last.Error = err.Error()
	}
	if res != nil {
		last.Result, last.Numbers = res, res.final(res.Left)
	}
	h.publish(last)
	if res != nil && r.ctx.Err() == nil {
		r.stage.ended(*res)
	}
}

// perform opens the sale, sells, counts, and closes it.
func (r *performance) perform() (res *result, missed []string, err error) {
	s, err := openSale(r.ctx, r.cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	r.sale, r.show = s, newShow(r.stage.hub, s)
	s.show = r.show
	defer func() {
		err = errors.Join(err, s.close())
		r.show.work.Wait()
	}()
	for _, in := range s.fleet {
		r.show.follow(r.ctx, in)
	}
	r.stage.hub.publish(update{Phase: phaseSelling})

	watching, stop := context.WithCancel(r.ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.show.watchRun(watching) })
	if r.act > 0 {
		err = r.playAct()
	} else {
		err = r.sellFreely()
	}
	stop()
	watch.Wait()
	if err != nil || r.ctx.Err() != nil {
		return nil, nil, err
	}
	if done, _ := s.tally.progress(); r.selling.Err() != nil {
		s.cfg.requests = done
	}
	sum, err := s.result(r.ctx)
	if err != nil {
		return nil, nil, err
	}
	if r.act > 0 {
		return &sum, scenes[r.act-1].must(sum), nil
	}
	return &sum, sum.broken(), nil
}

// playAct plays an act; what people do to its instances would spoil it.
func (r *performance) playAct() error {
	a := &act{sale: r.sale, con: newConsole(nil), tell: r.show.say}
	played := make(chan error, 1)
	ctx, cancel := context.WithCancel(r.selling)
	defer cancel()
	go func() { played <- scenes[r.act-1].perform(ctx, a) }() // joined below
	for {
		select {
		case err := <-played:
			if r.selling.Err() != nil {
				return fmt.Errorf("act %d was stopped before its end", r.act)
			}
			return err
		case do := <-r.hands:
			do()
		}
	}
}
