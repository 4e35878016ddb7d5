package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stage is where one run at a time is played for pages to look at: a free sale, or an act.
type stage struct {
	cfg   config // what the flags say: the start values of the page's controls
	hub   *hub
	ended func(result) // called after each run that came to its end
	ctx   context.Context
	work  sync.WaitGroup // the run; joined by close

	mu  sync.Mutex   // guards what follows; not held while a run is on its way
	run *performance // nil: none is on
	ids int
}

// errBusy and errNothingOn say that a button does not fit the moment.
var (
	errBusy      = errors.New("a run is on: stop it first")
	errNothingOn = errors.New("no sale is on: start one first")
)

// newStage returns an empty stage. Everything on it ends with ctx.
func newStage(ctx context.Context, cfg config, h *hub, ended func(result)) *stage {
	st := &stage{cfg: cfg, hub: h, ended: ended, ctx: ctx}
	st.clear()
	return st
}

// clear shows pages an empty stage.
func (st *stage) clear() {
	st.hub.begin(opening{Run: describe(st.cfg, 0, 0)})
	st.hub.publish(update{Phase: phaseIdle, Numbers: &numbers{Left: st.cfg.stock}})
}

func describe(cfg config, id, act int) runInfo {
	info := runInfo{
		ID: id, Act: act, Title: "A sale of your own", Mode: cfg.mode, Instances: cfg.instances, Stock: cfg.stock, Buyers: cfg.concurrency,
		Requests: cfg.requests, ThinkMS: ms(cfg.think), TTLMS: ms(cfg.ttl), WaitMS: ms(cfg.wait), Deaf: cfg.deaf,
		CanStop: canStop, Started: time.Now().Format(time.DateTime),
	}
	if act > 0 {
		info.Title = scenes[act-1].title
	}
	return info
}

// start puts a free sale (act 0) or an act on.
func (st *stage) start(cfg config, act int) error {
	if act > 0 {
		if cfg = pageStory(cfg, scenes[act-1].mode); !canStop && act > 2 && act < 5 {
			return errors.New("this act stops and continues a process, which this system cannot")
		}
	}
	cfg.live = true
	if err := cfg.check(); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ctx.Err() != nil {
		return errors.New("the program is ending")
	}
	if st.run != nil {
		return errBusy
	}
	st.ids++
	r := newPerformance(st.ctx, st, cfg, st.ids, act)
	st.run = r
	st.work.Go(func() {
		defer r.cancel()
		r.play()
		st.mu.Lock()
		defer st.mu.Unlock()
		st.run = nil
		close(r.over)
	})
	return nil
}

// pageStory is the story's sale, slow enough to be watched.
func pageStory(cfg config, m mode) config {
	cfg = storyConfig(cfg)
	cfg.mode, cfg.style, cfg.instances = m, styleRoute, 4
	cfg.think = 60 * time.Millisecond
	return cfg
}

// current returns the run that is on, or an error.
func (st *stage) current() (*performance, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.run == nil {
		return nil, errNothingOn
	}
	return st.run, nil
}

// stop ends the run after the requests that are on their way, and shows what came of it.
func (st *stage) stop() error {
	r, err := st.current()
	if err != nil {
		return err
	}
	r.stop()
	return nil
}

// reset ends the run at once, and clears the stage.
func (st *stage) reset() error {
	if r, err := st.current(); err == nil {
		r.cancel()
		<-r.over
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.run != nil {
		return errBusy // somebody was faster
	}
	st.clear()
	return nil
}

// close waits for the run, which ends with the stage's context.
func (st *stage) close() {
	st.mu.Lock()   // no start is half done
	st.mu.Unlock() //nolint:staticcheck // empty on purpose
	st.work.Wait()
}

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
