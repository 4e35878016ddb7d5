package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// button is what a page sends along.
type button struct {
	Act      int       `json:"act"`
	Instance string    `json:"instance"` // a name, or "holder"
	Seconds  float64   `json:"seconds"`
	Mode     shop.Mode `json:"mode"`
	Stock    *int      `json:"stock"`
	Buyers   *int      `json:"buyers"`
	Requests *int      `json:"requests"`
	ThinkMS  *float64  `json:"think_ms"`
	Deaf     bool      `json:"deaf"`
}

func readButton(w http.ResponseWriter, r *http.Request, b *button) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the request is not understood: %w", err)
	}
	return nil
}

// refuse answers that nothing was done, and why.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // the browser has gone
}

// buttons are what a page can ask for.
func (st *stage) buttons() map[string]func(ctx context.Context, b button) error {
	on := func(do func(r *performance, ctx context.Context, b button) error) func(context.Context, button) error {
		return func(ctx context.Context, b button) error {
			r, err := st.current()
			if err != nil {
				return err
			}
			return do(r, ctx, b)
		}
	}
	return map[string]func(ctx context.Context, b button) error{
		"start": func(_ context.Context, b button) error {
			cfg, err := b.sale(st.cfg)
			if err != nil {
				return err
			}
			return st.start(cfg, 0)
		},
		"act": func(_ context.Context, b button) error {
			if b.Act < 1 || b.Act > len(scenes) {
				return fmt.Errorf("there is no act %d", b.Act)
			}
			return st.start(st.cfg, b.Act)
		},
		"stop":  func(context.Context, button) error { return st.stop() },
		"reset": func(context.Context, button) error { return st.reset() },
		"pause": on(func(r *performance, ctx context.Context,
			b button,
		) error {
			return r.pauseOne(ctx, b.Instance)
		}),
		"continue": on(func(r *performance, ctx context.Context,
			b button,
		) error {
			return r.continueOne(ctx, b.Instance)
		}),
		"kill":  on(func(r *performance, ctx context.Context, b button) error { return r.killOne(ctx, b.Instance) }),
		"spawn": on(func(r *performance, ctx context.Context, _ button) error { return r.spawn(ctx) }),
		"cut": on(func(r *performance, ctx context.Context, b button) error {
			return r.cutRedis(ctx, time.Duration(b.Seconds*float64(time.Second)))
		}),
	}
}

// Limits of a sale on the page, which draws every request.
const (
	maxStock    = 5000
	maxBuyers   = 200
	maxRequests = 20_000
	maxThink    = 2 * time.Second
)

// sale is the sale that b asks for.
func (b button) sale(cfg config) (config, error) {
	set := func(into, from *int) {
		if from != nil {
			*into = *from
		}
	}
	if b.Mode != "" {
		cfg.mode = b.Mode
	}
	set(&cfg.stock, b.Stock)
	set(&cfg.concurrency, b.Buyers)
	set(&cfg.requests, b.Requests)
	if b.ThinkMS != nil {
		cfg.think = time.Duration(*b.ThinkMS * float64(time.Millisecond))
	}
	if cfg.deaf = b.Deaf; !cfg.mode.Locked() {
		cfg.style = shop.StyleRoute
	}
	return cfg, cfg.checkWeb()
}

// checkWeb is check with the limits of the page.
func (c config) checkWeb() error {
	_, err := loopbackAddr(c.addr)
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.stock <= maxStock, "-stock is %d, want at most %d for the page", c.stock, maxStock)
	want(c.concurrency <= maxBuyers, "-concurrency is %d, want at most %d buyers for the page",
		c.concurrency, maxBuyers)
	want(c.requests <= maxRequests, "-requests is %d, want at most %d for the page", c.requests, maxRequests)
	want(c.think <= maxThink, "-think is %v, want at most %v for the page", c.think, maxThink)
	want(c.instances <= maxAlive, "-instances is %d, want at most %d for the page", c.instances, maxAlive)
	return errors.Join(append(errs, err, c.check())...)
}
