package show

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// How often pages hear of a run.
const (
	updateEvery = 100 * time.Millisecond
	pointEvery  = 2 // updates
	pollEvery   = 3 // points
)

// show gathers what instances, buyers and Redis say about one run, and
// publishes it. A nil one shows nothing. Safe for concurrent use.
type show struct {
	hub    *hub
	sale   *sale
	began  time.Time
	client *http.Client
	work   sync.WaitGroup // one goroutine for each instance; they end with the instances

	mu      sync.Mutex // guards what follows; not held across I/O
	visits  map[string]*pageVisit
	changed map[string]bool // orders of visits that pages do not know as they are
	seller  map[int]string  // by what they left: the order that sold the item first
	lanes   []lane
	marks   []mark
	waits   []float64 // ms, since the last point
	holds   []float64
	next    update // parts for the next message
	closing bool   // instances leave because the run is over
}

func newShow(h *hub, s *sale) *show {
	return &show{
		// a stream has no time limit: it ends with the instance
		hub: h, sale: s, began: time.Now(), client: &http.Client{},
		visits: map[string]*pageVisit{}, changed: map[string]bool{}, seller: map[int]string{},
	}
}

// since converts µs since 1970.
func (s *show) since(micro int64) int64 {
	if micro == 0 {
		return 0
	}
	return max(1, micro-s.began.UnixMicro())
}

// follow adds an instance, and listens to it until it has gone.
func (s *show) follow(ctx context.Context, in *instance) {
	s.mu.Lock()
	s.lanes = append(s.lanes, lane{in.name, in.pid(), laneUp})
	s.next.Lanes = s.lanes
	s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	s.work.Go(func() {
		s.listen(ctx, in)
		<-in.gone
		s.left(in)
	})
}

func (s *show) listen(ctx context.Context, in *instance) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, in.url+"/visits", http.NoBody) //nolint:gosec // our child's
	if err != nil {
		return
	}
	resp, err := s.client.Do(req) //nolint:gosec // our own child
	if err != nil {
		return
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var v visit
		if lines.Decode(&v) != nil {
			return
		}
		s.saw(in, v)
	}
}

// saw takes over what an instance says about a request.
func (s *show) saw(in *instance, v visit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.visit(v.Order, in)
	p.Came, p.Held, p.Wrote, p.Lost = s.since(v.Came), s.since(v.Held), s.since(v.Wrote), s.since(v.Lost)
	if v.Ended != 0 || p.Code == "" { // else the buyer's answer was faster than the last word of the instance
		p.Ended = s.since(v.Ended)
	}
	p.Token, p.Behind, p.Handoff, p.Tries = v.Token, v.Behind, v.Handoff, v.Tries
	if v.Read >= 0 {
		p.Read = &v.Read
	}
	if !s.sale.cfg.mode.Locked() {
		return // nobody waits, and nothing is held
	}
	if !p.waited && p.Held != 0 {
		p.waited = true
		s.waits = append(s.waits, float64(p.Held-p.Came)/1000)
	}
	if !p.held && p.Ended != 0 && p.Held != 0 {
		p.held = true
		s.holds = append(s.holds, float64(p.Ended-p.Held)/1000)
	}
}

// heard takes over what a buyer was told.
func (s *show) heard(a answer) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.visit(a.order, a.instance)
	p.Code, p.Newest = a.Code, a.Newest
	if a.Code == "" {
		p.Code = "no_answer"
	}
	if p.Ended == 0 { // the instance will say it better, if it lives
		p.Ended = s.since(a.at.UnixMicro())
	}
	if a.Receipt == nil {
		return
	}
	p.Left = &a.Receipt.Left
	if first, ok := s.seller[a.Receipt.Left]; ok {
		p.Double = first
	} else {
		s.seller[a.Receipt.Left] = a.order
	}
}

// visit returns what is known about an order, to be changed. The caller holds
// the mutex.
func (s *show) visit(order string, in *instance) *pageVisit {
	p := s.visits[order]
	if p == nil {
		p = &pageVisit{Order: order, Lane: in.name}
		s.visits[order] = p
	}
	s.changed[order] = true
	return p
}

// lane shows that an instance was paused, or goes on.
func (s *show) lane(in *instance, state laneState) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLane(in.name, state)
	if state == lanePaused {
		s.addMark(mark{Lane: in.name, Kind: "paused", From: s.since(now())})
	} else {
		s.endMark(in.name, s.since(now()))
	}
}

// setLane needs the mutex.
func (s *show) setLane(name string, state laneState) {
	lanes := make([]lane, len(s.lanes)) // a copy: the old one may be on its way to pages
	copy(lanes, s.lanes)
	for i := range lanes {
		if lanes[i].Name == name {
			lanes[i].State = state
		}
	}
	s.lanes, s.next.Lanes = lanes, lanes
}

// addMark needs the mutex.
func (s *show) addMark(m mark) {
	m.ID = len(s.marks) + 1
	s.marks = append(s.marks, m)
	s.next.Marks = append(s.next.Marks, m)
}

// endMark ends what goes on in a lane. It needs the mutex.
func (s *show) endMark(lane string, at int64) {
	for i := range s.marks {
		if m := &s.marks[i]; m.Lane == lane && m.To == 0 {
			m.To = at
			s.next.Marks = append(s.next.Marks, *m)
		}
	}
}

// left notes that an instance has gone, which ends all that it did.
func (s *show) left(in *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.since(now())
	s.endMark(in.name, at)
	if s.closing {
		return
	}
	s.setLane(in.name, laneGone)
	s.addMark(mark{Lane: in.name, Kind: "killed", From: at, To: at})
	for _, p := range s.visits {
		if p.Lane == in.name && p.Ended == 0 {
			p.Ended = at
			s.changed[p.Order] = true
		}
	}
}

// cut notes that Redis is cut off for d.
func (s *show) cut(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.since(now())
	s.addMark(mark{Kind: "cut", From: at, To: at + d.Microseconds()})
}

// say tells pages what happens.
func (s *show) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.Said = append(s.next.Said, said{time.Since(s.began).Milliseconds(), text})
}

// close is called before the instances leave because the run is over.
func (s *show) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
}

// take returns all that pages do not know yet.
func (s *show) take() update {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.next
	s.next = update{}
	u.Now = s.since(now())
	for order := range s.changed {
		u.Visits = append(u.Visits, *s.visits[order])
	}
	clear(s.changed)
	return u
}

// watchRun publishes how a run gets on, until ctx ends, and then how things are
// at the end.
func (s *show) watchRun(ctx context.Context) {
	tick := time.NewTicker(updateEvery)
	defer tick.Stop()
	w := watching{show: s, known: map[string]stats{}, lastPoint: time.Now()}
	w.publish(ctx, true, false)
	for i := 1; ; i++ {
		select {
		case <-tick.C:
			w.publish(ctx, i%pointEvery == 0, i%(pointEvery*pollEvery) == 0)
		case <-ctx.Done():
			w.publish(context.WithoutCancel(ctx), true, true)
			return
		}
	}
}

// watching is what watchRun has in hand.
type watching struct {
	*show
	known     map[string]stats // by instance, as of the last time that it answered
	before    numbers
	lastPoint time.Time
	answered  int // at the last point
}

// publish tells pages what is new, with a point of the plots and the newest of
// the guards' measurements if asked to.
func (w *watching) publish(ctx context.Context, point, poll bool) {
	n := w.numbers(ctx, w.known)
	if poll {
		w.poll(ctx, w.known)
	}
	u := w.take()
	if point {
		u.Point = w.point(n, n.Answered-w.answered, time.Since(w.lastPoint))
		w.lastPoint, w.answered = time.Now(), n.Answered
	}
	if poll {
		u.Waits, u.Holds = buckets(w.known)
	}
	if !sameNumbers(n, w.before) {
		u.Numbers = &n
	}
	w.before = n
	if u.news() {
		w.hub.publish(u)
	}
}

// numbers counts, at one moment as far as the book is concerned.
func (s *show) numbers(ctx context.Context, known map[string]stats) numbers {
	t := s.sale.tally
	n := numbers{Left: s.sale.cfg.stock}
	if left, orders, err := s.sale.store.book.Glance(ctx); err == nil {
		n.Left, n.Orders = left, orders
	}
	n.Oversold, n.LostUpdates = harm(s.sale.cfg.stock, n.Left, n.Orders)
	n.Answered, n.Sold = t.progress()
	n.Reasons, n.Errors = t.reasons()
	n.LateWrites = n.Reasons[shop.CodeLateWrite]
	for _, k := range n.Reasons {
		n.Refused += k
	}
	for _, one := range known {
		n.LeasesLost += int(one.LeasesLost)
	}
	return n
}

// harm compares the order book with the stock.
func harm(stock, left, orders int) (oversold, lostUpdates int) {
	return max(0, orders-stock), orders - (stock - left)
}

func sameNumbers(a, b numbers) bool {
	same := len(a.Reasons) == len(b.Reasons)
	for code, n := range a.Reasons {
		same = same && b.Reasons[code] == n
	}
	a.Reasons, b.Reasons = nil, nil
	return same && a.Left == b.Left && a.Orders == b.Orders && a.Sold == b.Sold && a.LateWrites == b.LateWrites &&
		a.LeasesLost == b.LeasesLost && a.Answered == b.Answered && a.Errors == b.Errors
}

// final returns the numbers of the report.
func (r result) final(left int) *numbers {
	return &numbers{
		Left: left, Orders: r.Orders, Sold: r.Sold, Oversold: r.Oversold, LostUpdates: r.LostUpdates,
		LateWrites: r.LateWrites,
		LeasesLost: r.LeasesLost, Answered: r.Sold + r.Refused + r.Errors, Refused: r.Refused,
		Reasons: r.RefusedByReason,
		Errors:  r.Errors,
	}
}

// poll asks the instances for what their guards have measured. One that is
// paused does not answer in time.
func (s *show) poll(ctx context.Context, known map[string]stats) {
	ctx, cancel := context.WithTimeout(ctx, 2*updateEvery)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards known
	for _, in := range s.sale.instances() {
		wg.Go(func() {
			var one stats
			if in.get(ctx, s.sale.buyers.http, "/stats", &one) == nil {
				mu.Lock()
				defer mu.Unlock()
				known[in.name] = one
			}
		})
	}
	wg.Wait()
}

// point makes the next point of the plots.
func (s *show) point(n numbers, answered int, took time.Duration) *point {
	s.mu.Lock()
	waits, holds := s.waits, s.holds
	s.waits, s.holds = nil, nil
	s.mu.Unlock()
	return &point{
		MS: time.Since(s.began).Milliseconds(), Orders: n.Orders, Left: n.Left,
		RPS:     round(float64(answered)/took.Seconds(), 1),
		WaitP50: quantileOf(waits, 0.50), WaitP99: quantileOf(waits, 0.99),
		HoldP50: quantileOf(holds, 0.50), HoldP99: quantileOf(holds, 0.99),
	}
}

// quantileOf returns the q-quantile of a few values, nil of none.
func quantileOf(values []float64, q float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	v := round(values[max(0, int(math.Ceil(q*float64(len(values))))-1)], 2)
	return &v
}

// buckets merges what the guards have measured, coarsely enough to be drawn.
func buckets(known map[string]stats) (waits, holds [][2]int) {
	var all stats
	for _, one := range known {
		all.add(one)
	}
	return all.Waits.coarse(), all.Holds.coarse()
}

// coarse returns the buckets of h at two to the octave.
func (h histogram) coarse() (counts [][2]int) {
	half := histogram{Scale: 1, Buckets: map[int32]uint64{}}
	half.add(h)
	for i, n := range half.Buckets {
		if half.Scale == 1 {
			counts = append(counts, [2]int{int(i), int(n)})
		}
	}
	slices.SortFunc(counts, func(a, b [2]int) int { return a[0] - b[0] })
	return counts
}

// What pages are told. Times are µs since the run began, unless their name says
// ms; 0 is what has not happened.

// opening is the first message of a run: it resets a page.
type opening struct {
	Run runInfo `json:"run"`
}

// runInfo describes a run.
type runInfo struct {
	ID        int       `json:"id"`  // 0: nothing has been played yet
	Act       int       `json:"act"` // 0: a free sale
	Title     string    `json:"title"`
	Mode      shop.Mode `json:"mode"`
	Instances int       `json:"instances"`
	Stock     int       `json:"stock"`
	Buyers    int       `json:"buyers"`
	Requests  int       `json:"requests"`
	ThinkMS   float64   `json:"think_ms"`
	TTLMS     float64   `json:"ttl_ms"`
	WaitMS    float64   `json:"wait_ms"`
	Deaf      bool      `json:"deaf"`
	CanStop   bool      `json:"can_stop"` // this system can pause processes
	Started   string    `json:"started"`
}

// update is every other message. Each part says how things are now; what is
// missing has not changed.
type update struct {
	Now     int64       `json:"now"`
	Phase   phase       `json:"phase,omitempty"`
	Lanes   []lane      `json:"lanes,omitempty"`
	Visits  []pageVisit `json:"visits,omitempty"`
	Marks   []mark      `json:"marks,omitempty"`
	Said    []said      `json:"said,omitempty"`
	Numbers *numbers    `json:"numbers,omitempty"`
	Point   *point      `json:"point,omitempty"`
	Waits   [][2]int    `json:"waits,omitempty"` // bucket i counts 2^(i/2) s to 2^((i+1)/2) s
	Holds   [][2]int    `json:"holds,omitempty"`
	Result  *result     `json:"result,omitempty"`
	Missed  []string    `json:"missed,omitempty"` // what did not go as it must, or as the act tells
	Error   string      `json:"error,omitempty"`
}

// news says whether a running update tells anything.
func (u update) news() bool {
	return u.Lanes != nil || u.Visits != nil || u.Marks != nil || u.Said != nil || u.Numbers != nil || u.Point != nil
}

type phase string

const (
	phaseIdle     phase = "idle"
	phaseStarting phase = "starting"
	phaseSelling  phase = "selling"
	phaseStopping phase = "stopping"
	phaseEnded    phase = "ended"
)

// lane is one instance.
type lane struct {
	Name  string    `json:"name"`
	PID   int       `json:"pid"`
	State laneState `json:"state"`
}

type laneState string

const (
	laneUp     laneState = "up"
	lanePaused laneState = "paused"
	laneGone   laneState = "gone"
)

// pageVisit is one request: how it waited, held and ended.
type pageVisit struct {
	Order   string `json:"o"`
	Lane    string `json:"i"`
	Came    int64  `json:"c,omitempty"`
	Held    int64  `json:"h,omitempty"`
	Wrote   int64  `json:"w,omitempty"`
	Lost    int64  `json:"l,omitempty"`
	Ended   int64  `json:"e,omitempty"`
	Token   uint64 `json:"t,omitempty"`
	Newest  uint64 `json:"n,omitempty"` // the token that its late write came after
	Read    *int   `json:"r,omitempty"` // the stock that it read
	Left    *int   `json:"s,omitempty"` // the stock that it wrote
	Behind  string `json:"b,omitempty"` // order whose grant was in the way last
	Handoff bool   `json:"f,omitempty"`
	Tries   int    `json:"a,omitempty"`
	Code    string `json:"k,omitempty"` // what the buyer was told
	Double  string `json:"d,omitempty"` // order that had sold the same item before

	waited, held bool // counted in the plots
}

// mark is a stretch of time in one lane, or in all of them if Lane is "".
type mark struct {
	ID   int    `json:"id"`
	Lane string `json:"i,omitempty"`
	Kind string `json:"k"` // paused, killed, cut
	From int64  `json:"from"`
	To   int64  `json:"to,omitempty"` // 0: it goes on
}

// said is a line that tells what happens.
type said struct {
	AtMS int64  `json:"ms"`
	Text string `json:"text"`
}

// numbers are counts so far; in the end those of the report.
type numbers struct {
	Left        int            `json:"left"`
	Orders      int            `json:"orders"`
	Sold        int            `json:"sold"`
	Oversold    int            `json:"oversold"`
	LostUpdates int            `json:"lost_updates"`
	LateWrites  int            `json:"late_writes_refused"`
	LeasesLost  int            `json:"leases_lost"`
	Answered    int            `json:"answered"`
	Refused     int            `json:"refused"`
	Reasons     map[string]int `json:"refused_by_reason"`
	Errors      int            `json:"errors"`
}

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
