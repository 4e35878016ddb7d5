package show

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// stage is where one run at a time is played for pages to look at: a free sale,
// or an act.
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
		ID: id, Act: act, Title: "A sale of your own", Mode: cfg.mode, Instances: cfg.instances, Stock: cfg.stock,
		Buyers:   cfg.concurrency,
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
func pageStory(cfg config, m shop.Mode) config {
	cfg = storyConfig(cfg)
	cfg.mode, cfg.style, cfg.instances = m, shop.StyleRoute, 4
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

// stop ends the run after the requests that are on their way, and shows what
// came of it.
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
