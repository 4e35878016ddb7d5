package show

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
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
