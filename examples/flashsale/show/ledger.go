package show

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// visit is one request: how it waited, held and ended. Times are µs since the
// sale began, 0 for what has not happened.
type visit struct {
	// What its instance says.
	Order   string `json:"o"`
	Lane    string `json:"i"` // name of the instance
	Came    int64  `json:"c,omitempty"`
	Held    int64  `json:"h,omitempty"` // when its section began: with the lease, or without a guard at once
	Wrote   int64  `json:"w,omitempty"` // when the write of its step was answered
	Lost    int64  `json:"l,omitempty"` // when its lease was lost
	Ended   int64  `json:"e,omitempty"` // when its section ended, or its wait for nothing
	Token   uint64 `json:"t,omitempty"` // fencing token
	Read    *int   `json:"r,omitempty"` // the stock that it read
	Behind  string `json:"b,omitempty"` // order whose grant was in the way last
	Handoff bool   `json:"f,omitempty"` // the turn came from another request of this instance
	Tries   int    `json:"a,omitempty"` // sent to Redis while waiting

	told // what its buyer heard, which the instance does not know
}

// told is what a buyer heard, and what the ledger has counted.
type told struct {
	Code   string `json:"k,omitempty"` // "": nothing yet
	Newest uint64 `json:"n,omitempty"` // the token that its late write came after
	Left   *int   `json:"s,omitempty"` // the stock that it wrote
	Double string `json:"d,omitempty"` // order that had sold the same item before
}

// counts are the numbers of a sale so far.
type counts struct {
	Left            int            `json:"left"` // on the shelf
	Orders          int            `json:"orders"`
	Sold            int            `json:"sold"`
	Oversold        int            `json:"oversold"`
	LostUpdates     int            `json:"lost_updates"` // orders - (stock before - stock after)
	LateWrites      int            `json:"late_writes_refused"`
	LeasesLost      int            `json:"leases_lost"`
	Answered        int            `json:"answered"`
	Refused         int            `json:"refused"`
	RefusedByReason map[string]int `json:"refused_by_reason"`
	Errors          int            `json:"errors"` // requests without a clear answer, and without an order
}

// compare compares the order book with the stock.
func (n *counts) compare(stock, left, orders int) {
	n.Left, n.Orders = left, orders
	n.Oversold, n.LostUpdates = max(0, orders-stock), orders-(stock-left)
}

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
	Tone string `json:"tone,omitempty"` // good, bad, or neither
	text
}

// ledger keeps what instances, buyers and the hand of fate say about one sale.
// Safe for concurrent use.
type ledger struct {
	began time.Time
	work  sync.WaitGroup // one goroutine for each instance; they end with the instances
	tell  func(said)     // called with each line that is said; nil: pages only hear it

	mu      sync.Mutex // guards what follows; not held across I/O
	visits  map[string]*visit
	changed map[string]bool // orders of visits that pages do not know as they are
	seller  map[int]string  // by what they left: the order that sold the item first
	sum     counts          // without what the book says
	unclear []answer        // nobody knows yet whether something was sold
	latest  time.Time       // when the last buyer got an answer
	lanes   []lane
	marks   []mark
	next    update // parts for the next message to pages
	closing bool   // instances leave because the sale is over
}

func newLedger() *ledger {
	return &ledger{
		began: time.Now(), visits: map[string]*visit{}, changed: map[string]bool{}, seller: map[int]string{},
		sum: counts{RefusedByReason: map[string]int{}},
	}
}

// since returns a time of the sale in µs, which is never 0.
func (l *ledger) since(at time.Time) int64 { return max(1, at.Sub(l.began).Microseconds()) }

func (l *ledger) now() int64 { return l.since(time.Now()) }

// follow adds an instance, and listens to it until it has gone.
func (l *ledger) follow(in *instance) {
	l.mu.Lock()
	l.lanes = append(slices.Clip(l.lanes), lane{in.name, in.pid(), laneUp})
	l.next.Lanes = l.lanes
	l.mu.Unlock()
	l.work.Go(func() {
		// The stream has no time limit: it ends with the instance.
		if body, err := shop.Get(context.Background(), &http.Client{}, in.url+"/visits"); err == nil {
			for lines, v := json.NewDecoder(body), (visit{}); lines.Decode(&v) == nil; v = (visit{}) {
				l.saw(v)
			}
			body.Close()
		}
		<-in.gone
		l.setLane(in.name, laneGone)
	})
}

// saw takes over what an instance says about a request, with times in µs since
// 1970.
func (l *ledger) saw(v visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range []*int64{&v.Came, &v.Held, &v.Wrote, &v.Lost, &v.Ended} {
		if *at != 0 {
			*at = l.since(time.UnixMicro(*at))
		}
	}
	known := l.visit(v.Order, v.Lane)
	if v.Lost != 0 && known.Lost == 0 {
		l.sum.LeasesLost++
	}
	v.Ended = cmp.Or(v.Ended, known.Ended) // the buyer's answer may be faster than the last word of the instance
	v.told = known.told
	*known = v
}

// heard takes over what a buyer was told.
func (l *ledger) heard(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.Answered++
	switch n := &l.sum; {
	case a.sold():
		n.Sold++
	case a.refused():
		n.Refused++
		n.RefusedByReason[a.Code]++
		n.LateWrites = n.RefusedByReason[shop.CodeLateWrite]
	default:
		n.Errors++
		l.unclear = append(l.unclear, a)
	}
	if a.at.After(l.latest) {
		l.latest = a.at
	}
	v := l.visit(a.order, a.instance.name)
	v.Code, v.Newest = cmp.Or(a.Code, "no_answer"), a.Newest
	v.Ended = cmp.Or(v.Ended, l.since(a.at)) // the instance will say it better, if it lives
	if a.Receipt != nil {
		v.Left, v.Double = &a.Receipt.Left, l.seller[a.Receipt.Left]
		l.seller[a.Receipt.Left] = cmp.Or(v.Double, a.order)
	}
}

// visit returns what is known about an order, to be changed. The caller holds
// the mutex.
func (l *ledger) visit(order, lane string) *visit {
	v := l.visits[order]
	if v == nil {
		v = &visit{Order: order, Lane: lane}
		l.visits[order] = v
	}
	l.changed[order] = true
	return v
}

// counts returns the numbers so far, but those of the book.
func (l *ledger) counts() counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.sum
	n.RefusedByReason = maps.Clone(n.RefusedByReason)
	return n
}

// reach is what is known of the handler's part.
type reach struct {
	Reached   int    `json:"reached_handler"`   // sold, or answered by the handler
	Failed    int    `json:"failed_in_handler"` // of these, and not in the book
	settled   int    // sold, but known from the order book only
	complaint string // one of the errors; "": there is none
}

// settle looks up in the order book what became of the unclear requests, as a
// shop would before it charges anybody: the instance may have died between its
// write and its answer.
func (l *ledger) settle(orders []string) (r reach) {
	l.mu.Lock()
	defer l.mu.Unlock()
	booked := map[string]bool{}
	for _, o := range orders {
		booked[o] = true
	}
	l.unclear = slices.DeleteFunc(l.unclear, func(a answer) bool { return booked[a.order] })
	r.settled = l.sum.Errors - len(l.unclear)
	l.sum.Errors -= r.settled
	l.sum.Sold += r.settled
	for _, a := range l.unclear {
		if a.Code == shop.CodeFailed || a.Code == shop.CodeLockLost {
			r.Failed++
		}
	}
	r.Reached = l.sum.Sold + l.sum.RefusedByReason[shop.CodeSoldOut] + l.sum.LateWrites + r.Failed
	if len(l.unclear) > 0 {
		a := l.unclear[0]
		r.complaint = a.instance.name + ": " + a.Detail
		if a.status != 0 {
			r.complaint = fmt.Sprintf("%s: %d %s %s", a.instance.name, a.status, a.Code, a.Detail)
		}
	}
	return r
}

// setLane notes how an instance is from now on. That ends what is marked in its
// lane, and an instance that has gone has ended all that it did.
func (l *ledger) setLane(name string, state laneState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == laneGone && l.closing {
		return
	}
	at := l.now()
	for i := range l.marks {
		if m := &l.marks[i]; m.Lane == name && m.To == 0 {
			m.To = at
			l.next.Marks = append(l.next.Marks, *m)
		}
	}
	l.lanes = slices.Clone(l.lanes) // the old one may be on its way to pages
	for i := range l.lanes {
		if l.lanes[i].Name == name {
			l.lanes[i].State = state
		}
	}
	l.next.Lanes = l.lanes
	switch state {
	case lanePaused:
		l.addMark(mark{Lane: name, Kind: "paused", From: at})
	case laneGone:
		l.addMark(mark{Lane: name, Kind: "killed", From: at, To: at})
		for _, v := range l.visits {
			if v.Lane == name && v.Ended == 0 {
				v.Ended = at
				l.changed[v.Order] = true
			}
		}
	}
}

// addMark needs the mutex.
func (l *ledger) addMark(m mark) {
	m.ID = len(l.marks) + 1
	l.marks = append(l.marks, m)
	l.next.Marks = append(l.next.Marks, m)
}

// cut notes that Redis is cut off for d.
func (l *ledger) cut(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.now()
	l.addMark(mark{Kind: "cut", From: at, To: at + d.Microseconds()})
}

// say tells what happens: a text, as of the function say.
func (l *ledger) say(tone, key string, args ...any) {
	s := said{time.Since(l.began).Milliseconds(), tone, say(key, args...)}
	if l.tell != nil {
		l.tell(s)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next.Said = append(l.next.Said, s)
}

// close is called before the instances leave because the sale is over.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
}

// take returns all that pages do not know yet.
func (l *ledger) take() update {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.next
	l.next = update{}
	u.Now = l.now()
	for order := range l.changed {
		u.Visits = append(u.Visits, *l.visits[order])
	}
	clear(l.changed)
	return u
}

// quantiles are of the waits for the key and of the holds of it, in ms; 0 is
// none.
type quantiles struct {
	WaitP50 float64 `json:"wait_p50_ms"`
	WaitP99 float64 `json:"wait_p99_ms"`
	HoldP50 float64 `json:"hold_p50_ms"`
	HoldP99 float64 `json:"hold_p99_ms"`
}

// quantiles returns those of all requests under a guard.
func (l *ledger) quantiles() quantiles {
	l.mu.Lock()
	defer l.mu.Unlock()
	var waits, holds []float64
	for _, v := range l.visits {
		if until := cmp.Or(v.Held, v.Ended); v.Came != 0 && until != 0 {
			waits = append(waits, float64(until-v.Came)/1000)
		}
		if v.Held != 0 && v.Ended != 0 {
			holds = append(holds, float64(v.Ended-v.Held)/1000)
		}
	}
	return quantiles{quantile(waits, 0.50), quantile(waits, 0.99), quantile(holds, 0.50), quantile(holds, 0.99)}
}

// quantile returns the q-quantile, 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return round(values[max(0, int(math.Ceil(q*float64(len(values))))-1)], 3)
}

// round rounds x to so many decimals.
func round(x float64, decimals int) float64 {
	unit := math.Pow10(decimals)
	return math.Round(x*unit) / unit
}
