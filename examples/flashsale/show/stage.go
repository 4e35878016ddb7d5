package show

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// What pages are told. Times are µs since the run began, unless their name says
// ms; 0 is what has not happened.

// runInfo describes a run.
type runInfo struct {
	config
	ID      int    `json:"id"`       // 0: nothing has been played yet
	Act     int    `json:"act"`      // 0: a free sale
	Own     config `json:"own"`      // the sale of one's own that the flags describe
	CanStop bool   `json:"can_stop"` // this system can pause processes
	Started string `json:"started"`
}

// update is a message. Each part says how things are now; what is missing has
// not changed.
type update struct {
	Run     *runInfo `json:"run,omitempty"` // in the first message of a run, which resets a page
	Now     int64    `json:"now,omitempty"`
	Phase   phase    `json:"phase,omitempty"`
	Lanes   []lane   `json:"lanes,omitempty"`
	Visits  []visit  `json:"visits,omitempty"`
	Marks   []mark   `json:"marks,omitempty"`
	Said    []said   `json:"said,omitempty"`
	Numbers *counts  `json:"numbers,omitempty"`
	Result  *result  `json:"result,omitempty"`
	Missed  []text   `json:"missed,omitempty"` // what did not go as it must, or as the act tells
	Error   *text    `json:"error,omitempty"`
}

type phase string

const (
	phaseIdle     phase = "idle"
	phaseStarting phase = "starting"
	phaseSelling  phase = "selling"
	phaseStopping phase = "stopping"
	phaseEnded    phase = "ended"
)

// stage is where one run at a time is played for pages to look at: a free sale,
// or an act.
type stage struct {
	cfg   config // what the flags say: the start values of the page's controls
	hub   *hub
	ended func(update) // called after each run, with its last message
	ctx   context.Context
	work  sync.WaitGroup // the run; joined by close

	mu  sync.Mutex   // guards what follows; not held while a run is on its way
	run *performance // nil: none is on
	ids int
}

// newStage returns an empty stage. Everything on it ends with ctx.
func newStage(ctx context.Context, cfg config, h *hub, ended func(update)) *stage {
	st := &stage{cfg: cfg, hub: h, ended: ended, ctx: ctx}
	st.clear()
	return st
}

// clear shows pages an empty stage.
func (st *stage) clear() {
	st.begin(st.cfg, 0, 0)
	st.hub.publish(update{Phase: phaseIdle, Numbers: &counts{Left: st.cfg.Stock}})
}

func (st *stage) begin(cfg config, id, act int) {
	st.hub.publish(update{Run: &runInfo{
		config: cfg, ID: id, Act: act, Own: st.cfg, CanStop: canStop, Started: time.Now().Format(time.DateTime),
	}})
}

// button is what a page sends along.
type button struct {
	config           // of a sale of one's own
	Act      int     `json:"act"`
	Instance string  `json:"instance"` // a name, or "holder": the one in the step
	Seconds  float64 `json:"seconds"`
}

// press does what a page asks for.
func (st *stage) press(ctx context.Context, what string, body io.Reader) error {
	b := button{config: st.cfg}
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil && !errors.Is(err, io.EOF) {
		return say("error.request", "error", err)
	}
	switch what {
	case "start":
		if !b.Mode.Locked() {
			b.Style = shop.StyleRoute
		}
		return st.start(b.config, 0)
	case "act":
		if b.Act < 1 || b.Act > len(scenes) {
			return say("error.noact", "act", b.Act)
		}
		if !canStop && (b.Act == 3 || b.Act == 4) {
			return say("error.nostop")
		}
		return st.start(sceneConfig(st.cfg, scenes[b.Act-1]), b.Act)
	case "reset":
		return st.reset()
	}
	r, err := st.current()
	if err == nil && what == "stop" {
		r.stop()
	} else if err == nil {
		err = r.meddle(ctx, what, b)
	}
	return err
}

// start puts a free sale (act 0) or an act on.
func (st *stage) start(cfg config, act int) error {
	if err := cfg.check(); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ctx.Err() != nil {
		return say("error.ending")
	}
	if st.run != nil {
		return say("error.busy")
	}
	st.ids++
	r := &performance{stage: st, cfg: cfg, id: st.ids, act: act, over: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(st.ctx)
	r.selling, r.stop = context.WithTimeout(r.ctx, runLimit)
	st.run = r
	st.work.Go(func() {
		defer r.cancel()
		last := r.play()
		st.end(r, last)
		st.ended(last)
	})
	return nil
}

// end clears the stage for another run and tells pages in one step, so that
// whoever has heard the last message can start.
func (st *stage) end(r *performance, last update) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.run = nil
	close(r.over)
	st.hub.publish(last)
}

// current returns the run that is on, or an error.
func (st *stage) current() (*performance, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.run == nil {
		return nil, say("error.nothing")
	}
	return st.run, nil
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
		return say("error.busy") // somebody was faster
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

// Limits of a run and of what people do to it.
const (
	runLimit   = 15 * time.Minute // for a run that nobody ends
	maxAlive   = 8                // instances at once
	maxCut     = 10 * time.Second
	catchLimit = 2 * time.Second        // to catch an instance in mid-step
	breath     = 250 * time.Millisecond // of a buyer whose request failed
)

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
	over    chan struct{}

	hands sync.Mutex // held while somebody does something to the instances; guards what follows
	sale  *sale      // nil: it is not open yet
	mend  *time.Timer
}

// play plays the run from its first message on, and returns the last.
func (r *performance) play() (last update) {
	r.stage.begin(r.cfg, r.id, r.act)
	r.stage.hub.publish(update{Phase: phaseStarting, Numbers: &counts{Left: r.cfg.Stock}})
	var res result
	err := withSale(r.ctx, r.cfg, func(s *sale) (err error) {
		r.hands.Lock()
		r.sale = s
		r.hands.Unlock()
		res, last, err = r.perform()
		return err
	})
	last.Phase = phaseEnded
	if r.ctx.Err() != nil || r.act > 0 && r.selling.Err() != nil {
		err = say("error.stopped")
	}
	if err != nil {
		why := textOf(err)
		last.Error = &why
		return last
	}
	last.Result, last.Numbers, last.Missed = &res, &res.counts, res.broken()
	if r.act > 0 {
		last.Missed = scenes[r.act-1].must(res)
	}
	return last
}

// perform sells and counts. What pages do not know then is in last.
func (r *performance) perform() (res result, last update, err error) {
	s := r.sale
	r.stage.hub.publish(update{Phase: phaseSelling})
	watching, end := context.WithCancel(r.ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(watching) })
	if r.act > 0 {
		err = scenes[r.act-1].perform(r.selling, s)
	} else {
		err = r.sellFreely()
	}
	end()
	watch.Wait()
	at := s.ledger.now()
	if err == nil {
		s.cfg.Requests = s.ledger.counts().Answered // fewer if it was stopped
		res, err = s.result(r.ctx)
	}
	s.end()
	last = s.ledger.take()
	last.Now = at
	return res, last, err
}

// sellFreely lets buyers buy until all requests are answered, and people do
// what they like meanwhile. When they stop it, buyers go home, once those who
// wait for a paused instance have their answers.
func (r *performance) sellFreely() error {
	var woken error
	var waking sync.WaitGroup
	waking.Go(func() {
		<-r.selling.Done()
		r.stage.hub.publish(update{Phase: phaseStopping})
		r.hands.Lock()
		defer r.hands.Unlock()
		for _, in := range r.sale.living() {
			if in.halted.Load() {
				woken = errors.Join(woken, r.sale.resume(in))
			}
		}
	})
	r.sale.buy(r.ctx, 1, r.cfg.Requests, r.pick, r.note)
	r.stop()
	waking.Wait()
	return woken
}

// note counts an answer. A buyer whose request failed takes a breath: a shop
// that is down is not bought empty by errors.
func (r *performance) note(a answer) {
	r.sale.ledger.heard(a)
	if a.status == 0 || a.status >= http.StatusInternalServerError {
		shop.Pause(r.selling, breath)
	}
}

// pick chooses the instance for request i as a load balancer does: in turn, and
// none that is paused or has gone. It waits for one if there is none.
func (r *performance) pick(i int) *instance {
	for ; r.selling.Err() == nil; shop.Pause(r.selling, tellEvery) {
		ready := slices.DeleteFunc(r.sale.living(), func(in *instance) bool { return in.halted.Load() })
		if len(ready) > 0 {
			return ready[i%len(ready)]
		}
	}
	return nil
}

// meddle does something to the instances while buyers buy, after what others do
// to them.
func (r *performance) meddle(ctx context.Context, what string, b button) error {
	if r.act > 0 {
		return say("error.act")
	}
	r.hands.Lock()
	defer r.hands.Unlock()
	switch {
	case r.sale == nil || r.selling.Err() != nil:
		return say("error.nothing")
	case ctx.Err() != nil:
		return ctx.Err()
	case what == "spawn":
		return r.spawn()
	case what == "cut":
		return r.cut(b.Seconds)
	case what == "pause", what == "continue", what == "kill":
		return r.lay(what, b.Instance)
	}
	return say("error.button", "what", what)
}

// lay lays hands on a living instance, by its name, or on the one that is in
// the step.
func (r *performance) lay(what, name string) (err error) {
	if name == "holder" {
		if name, err = r.catch(); err != nil {
			return err
		}
	}
	all := r.sale.living()
	i := slices.IndexFunc(all, func(in *instance) bool { return in.name == name })
	if i < 0 {
		return say("error.gone", "name", name)
	}
	switch in := all[i]; {
	case what == "kill":
		in.kill()
		<-in.gone
	case (what == "pause") == in.halted.Load():
		return say("error."+what, "name", name)
	case what == "pause":
		err = r.sale.halt(in)
	default:
		err = r.sale.resume(in)
	}
	r.sale.ledger.say("", "said."+what, "name", name)
	return err
}

// catch waits until an instance is in mid-step, and returns its name.
func (r *performance) catch() (string, error) {
	asked, answer := r.sale.hold(anyOrder)
	answer() // it need not wait
	select {
	case name := <-asked:
		shop.Pause(r.ctx, min(r.cfg.Think/3, tellEvery/2)) // until pages have heard that it holds the key
		return name, nil
	case <-time.After(catchLimit):
	case <-r.selling.Done():
	}
	return "", say("error.nobody")
}

// spawn starts one more instance.
func (r *performance) spawn() error {
	alive, all := len(r.sale.living()), len(r.sale.instances())
	if alive >= maxAlive || all >= 4*maxAlive {
		return say("error.enough", "alive", alive, "all", all)
	}
	more, err := startFleet(r.ctx, 1, func(int) instanceConfig { return r.sale.settings(all + 1) })
	if err != nil {
		return err
	}
	r.sale.add(more)
	r.sale.ledger.say("", "said.new", "name", more[0].name)
	return nil
}

// cut cuts all instances off Redis for some seconds.
func (r *performance) cut(seconds float64) error {
	d := time.Duration(seconds * float64(time.Second))
	if d < 100*time.Millisecond || d > maxCut {
		return say("error.cut", "seconds", seconds)
	}
	if r.sale.cutter == nil {
		return say("error.several")
	}
	if r.mend != nil {
		r.mend.Stop()
	}
	r.mend = time.AfterFunc(d, r.sale.cutter.Refuse())
	r.sale.ledger.cut(d)
	r.sale.ledger.say("", "said.cut", "seconds", seconds)
	return nil
}

// updateEvery is how often pages hear of a run.
const updateEvery = 100 * time.Millisecond

// watch tells pages how a sale gets on, until it is over, and once more then.
func (r *performance) watch(over context.Context) {
	tick := time.NewTicker(updateEvery)
	defer tick.Stop()
	for last := false; !last; {
		last = over.Err() != nil
		u, n := r.sale.ledger.take(), r.sale.ledger.counts()
		n.Left = r.cfg.Stock
		if left, orders, err := r.sale.store.book.Glance(r.ctx); err == nil {
			n.compare(r.cfg.Stock, left, orders)
		}
		u.Numbers = &n
		r.stage.hub.publish(u)
		select {
		case <-tick.C:
		case <-over.Done():
		}
	}
}
