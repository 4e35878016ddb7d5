package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
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
	Point   *point   `json:"point,omitempty"`
	Waits   [][2]int `json:"waits,omitempty"` // bucket i counts 2^(i/2) s to 2^((i+1)/2) s
	Holds   [][2]int `json:"holds,omitempty"`
	Result  *result  `json:"result,omitempty"`
	Missed  []string `json:"missed,omitempty"` // what did not go as it must, or as the act tells
	Error   string   `json:"error,omitempty"`
}

type phase string

const (
	phaseIdle     phase = "idle"
	phaseStarting phase = "starting"
	phaseSelling  phase = "selling"
	phaseStopping phase = "stopping"
	phaseEnded    phase = "ended"
)

// point is one of the plots over time: the quantiles are of what ended since
// the point before, in ms; nil is none.
type point struct {
	MS      int64    `json:"ms"`
	Orders  int      `json:"orders"`
	Left    int      `json:"left"`
	RPS     float64  `json:"rps"`
	WaitP50 *float64 `json:"w50"`
	WaitP99 *float64 `json:"w99"`
	HoldP50 *float64 `json:"h50"`
	HoldP99 *float64 `json:"h99"`
}

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
	st.begin(st.cfg, 0, 0)
	st.hub.publish(update{Phase: phaseIdle, Numbers: &counts{Left: st.cfg.Stock}})
}

func (st *stage) begin(cfg config, id, act int) {
	st.hub.begin(update{Run: &runInfo{
		config: cfg, ID: id, Act: act, Own: st.cfg, CanStop: canStop, Started: time.Now().Format(time.DateTime),
	}})
}

// button is what a page sends along.
type button struct {
	config           // of a sale of one's own
	Act      int     `json:"act"`
	Instance string  `json:"instance"` // a name, or "holder"
	Seconds  float64 `json:"seconds"`
}

// theHolder stands for the instance that is in the step.
const theHolder = "holder"

// press does what a page asks for.
func (st *stage) press(ctx context.Context, what string, body io.Reader) error {
	b := button{config: st.cfg}
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the request is not understood: %w", err)
	}
	switch what {
	case "start":
		if !b.Mode.Locked() {
			b.Style = shop.StyleRoute
		}
		return st.start(b.config, 0)
	case "act":
		if b.Act < 1 || b.Act > len(scenes) {
			return fmt.Errorf("there is no act %d", b.Act)
		}
		if !canStop && (b.Act == 3 || b.Act == 4) {
			return errors.New("this act stops and continues a process, which this system cannot")
		}
		return st.start(sceneConfig(st.cfg, scenes[b.Act-1]), b.Act)
	case "reset":
		return st.reset()
	}
	r, err := st.current()
	if err != nil {
		return err
	}
	switch what {
	case "stop":
		r.stop()
		return nil
	case "spawn":
		return r.by(ctx, r.spawn)
	case "cut":
		return r.by(ctx, func() error { return r.cut(time.Duration(b.Seconds * float64(time.Second))) })
	case "pause", "continue", "kill":
		return r.by(ctx, func() error { return r.lay(what, b.Instance) })
	}
	return fmt.Errorf("there is no button %q", what)
}

// start puts a free sale (act 0) or an act on.
func (st *stage) start(cfg config, act int) error {
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
	r := &performance{stage: st, cfg: cfg, id: st.ids, act: act, over: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(st.ctx)
	r.selling, r.stop = context.WithTimeout(r.ctx, runLimit)
	st.run = r
	st.work.Go(func() {
		defer r.cancel()
		last := r.play()
		st.end(r, last)
		if last.Result != nil {
			st.ended(*last.Result)
		}
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
		return nil, errNothingOn
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
	sale    *sale

	hands sync.Mutex // held while somebody does something to the instances; guards what follows
	open  bool       // buyers buy: hands may come
	mend  *time.Timer
}

// play plays the run from its first message on, and returns the last.
func (r *performance) play() (last update) {
	h := r.stage.hub
	r.stage.begin(r.cfg, r.id, r.act)
	h.publish(update{Phase: phaseStarting, Numbers: &counts{Left: r.cfg.Stock}})
	res, err := r.perform(&last)
	last.Phase = phaseEnded
	switch {
	case r.ctx.Err() != nil:
		last.Error = "stopped before its end"
	case err != nil:
		last.Error = err.Error()
	default:
		last.Result, last.Numbers, last.Missed = &res, &res.counts, res.broken()
		if r.act > 0 {
			last.Missed = scenes[r.act-1].must(res)
		}
	}
	return last
}

// perform opens the sale, sells, counts, and closes it. What pages do not know
// then is in last.
func (r *performance) perform(last *update) (res result, err error) {
	s, err := openSale(r.ctx, r.cfg)
	if err != nil {
		return result{}, err
	}
	r.sale = s
	defer func() { err = errors.Join(err, s.close()) }()
	r.stage.hub.publish(update{Phase: phaseSelling})
	watching, end := context.WithCancel(r.ctx)
	defer end()
	var watch sync.WaitGroup
	w := watcher{sale: s, hub: r.stage.hub, at: s.ledger.began}
	watch.Go(func() { w.run(watching) })
	if r.act > 0 {
		err = r.playAct()
	} else {
		err = r.sellFreely()
	}
	end()
	watch.Wait()
	r.stage.hub.publish(w.next(r.ctx, true))
	at := s.ledger.now()
	if err == nil {
		s.cfg.Requests = s.ledger.counts().Answered // fewer if it was stopped
		res, err = s.result(r.ctx)
	}
	s.end()
	*last = s.ledger.take()
	last.Now, last.Waits, last.Holds = at, buckets(s.ledger.waits), buckets(s.ledger.holds)
	return res, err
}

// playAct plays an act.
func (r *performance) playAct() error {
	err := scenes[r.act-1].perform(r.selling, &act{sale: r.sale, con: &console{}, tell: r.sale.ledger.say})
	if r.selling.Err() != nil {
		return fmt.Errorf("act %d was stopped before its end", r.act)
	}
	return err
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
		r.open = false
		for _, in := range r.sale.instances() {
			if in.halted.Load() && in.alive() {
				woken = errors.Join(woken, r.sale.resume(in))
			}
		}
	})
	r.hands.Lock()
	r.open = r.selling.Err() == nil
	r.hands.Unlock()
	r.sale.buyers.buy(r.ctx, 1, r.cfg.Requests, r.pick, r.note)
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

// by does something to the instances while buyers buy, after what others do to
// them.
func (r *performance) by(ctx context.Context, do func() error) error {
	if r.act > 0 {
		return errors.New("an act is on: it does such things itself; start a sale of your own")
	}
	r.hands.Lock()
	defer r.hands.Unlock()
	if !r.open {
		return errNothingOn
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return do()
}

// lay lays hands on a living instance, by its name, or on the one that is in the
// step.
func (r *performance) lay(what, name string) error {
	if name == theHolder {
		var err error
		if name, err = r.catch(); err != nil {
			return err
		}
	}
	for _, in := range r.sale.instances() {
		if in.name != name || !in.alive() {
			continue
		}
		switch halted := in.halted.Load(); {
		case what == "kill":
			in.kill()
			<-in.gone
			r.sale.ledger.say(name + " is dead (kill -9).")
			return nil
		case what == "pause" && halted:
			return fmt.Errorf("%s is paused already", name)
		case what == "pause":
			r.sale.ledger.say(name + " is paused (SIGSTOP).")
			return r.sale.halt(in)
		case !halted:
			return fmt.Errorf("%s is not paused", name)
		}
		r.sale.ledger.say(name + " goes on (SIGCONT).")
		return r.sale.resume(in)
	}
	return fmt.Errorf("no instance %q is alive", name)
}

// catch waits until an instance is in mid-step, and returns its name.
func (r *performance) catch() (string, error) {
	asked, answer := r.sale.prices.hold(anyOrder)
	answer() // it need not wait
	select {
	case name := <-asked:
		shop.Pause(r.ctx, min(r.cfg.Think/3, tellEvery/2)) // until pages have heard that it holds the key
		return name, nil
	case <-time.After(catchLimit):
	case <-r.selling.Done():
	}
	return "", errors.New("nobody is in the step now: try again while items are being sold")
}

// spawn starts one more instance.
func (r *performance) spawn() error {
	all, alive := r.sale.instances(), 0
	for _, in := range all {
		if in.alive() {
			alive++
		}
	}
	if alive >= maxAlive || len(all) >= 4*maxAlive {
		return fmt.Errorf("%d instances are alive, %d were started: that is enough", alive, len(all))
	}
	more, err := startFleet(r.ctx, 1, func(int) instanceConfig { return r.sale.settings(len(all) + 1) })
	if err != nil {
		return err
	}
	r.sale.add(more)
	r.sale.ledger.say(more[0].name + " is new.")
	return nil
}

// cut cuts all instances off Redis for d.
func (r *performance) cut(d time.Duration) error {
	if d < 100*time.Millisecond || d > maxCut {
		return fmt.Errorf("cut Redis off for %.1f s: want 0.1 to %.0f", d.Seconds(), maxCut.Seconds())
	}
	if r.sale.cutter == nil {
		return errors.New("a Redis of several servers cannot be cut off here: kill one of them")
	}
	if r.mend != nil {
		r.mend.Stop()
	}
	r.mend = time.AfterFunc(d, r.sale.cutter.Refuse())
	r.sale.ledger.cut(d)
	r.sale.ledger.say(fmt.Sprintf("Redis is cut off for %.1f s.", d.Seconds()))
	return nil
}

// How often pages hear of a run.
const (
	updateEvery = 100 * time.Millisecond
	pointEvery  = 2 // updates
)

// watcher tells pages how a sale gets on. It is used by one goroutine at a time.
type watcher struct {
	sale         *sale
	hub          *hub
	at           time.Time // of the last point
	answered     int       // as of then
	waits, holds int       // of the ledger's, as of then
}

// run publishes until ctx ends.
func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(updateEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		w.hub.publish(w.next(ctx, i%pointEvery == 0))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// next returns what pages do not know yet, with a point of the plots if asked
// to.
func (w *watcher) next(ctx context.Context, withPoint bool) update {
	stock, l := w.sale.cfg.Stock, w.sale.ledger
	u := l.take()
	n := l.counts()
	n.Left = stock
	if left, orders, err := w.sale.store.book.Glance(ctx); err == nil {
		n.compare(stock, left, orders)
	}
	u.Numbers = &n
	if !withPoint {
		return u
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waits, holds := l.waits[w.waits:], l.holds[w.holds:]
	u.Point = &point{
		MS: time.Since(l.began).Milliseconds(), Orders: n.Orders, Left: n.Left,
		RPS:     round(float64(n.Answered-w.answered)/max(0.001, time.Since(w.at).Seconds()), 1),
		WaitP50: quantile(waits, 0.50), WaitP99: quantile(waits, 0.99),
		HoldP50: quantile(holds, 0.50), HoldP99: quantile(holds, 0.99),
	}
	u.Waits, u.Holds = buckets(l.waits), buckets(l.holds)
	w.at, w.answered, w.waits, w.holds = time.Now(), n.Answered, len(l.waits), len(l.holds)
	return u
}

// buckets counts values in ms, two buckets to the octave of seconds.
func buckets(values []float64) (counts [][2]int) {
	by := map[int]int{}
	for _, v := range values {
		by[int(math.Floor(2*math.Log2(max(v, 0.001)/1000)))]++
	}
	for _, i := range slices.Sorted(maps.Keys(by)) {
		counts = append(counts, [2]int{i, by[i]})
	}
	return counts
}
