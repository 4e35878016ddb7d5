package show

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// answer is what a buyer got for one request.
type answer struct {
	order    string
	instance *instance
	status   int // 0: no answer at all
	shop.AnswerBody
	at time.Time
}

// refused says that the buyer was clearly told that nothing was sold.
func (a answer) refused() bool {
	switch a.status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// buyers are the crowd.
type buyers struct {
	http        *http.Client
	concurrency int
	clicks      *clicks // of buyers who click twice; nil: none do
}

// newHTTPClient returns a client that keeps its connections. 0 means no time
// limit of its own.
func newHTTPClient(limit time.Duration) *http.Client {
	return &http.Client{
		Timeout:   limit,
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000, IdleConnTimeout: time.Minute},
	}
}

// buy sends the requests numbered from to from+n-1, round robin over the
// instances, and calls got with each answer, from many goroutines. It returns
// when all have been answered, or ctx has ended.
func (b *buyers) buy(ctx context.Context, from, n int, at []*instance, got func(answer)) {
	b.crowd(ctx, from, n, func(i int) *instance { return at[i%len(at)] }, got)
}

// crowd is buy with a choice of the instance for each request; nil sends the
// buyer home.
func (b *buyers) crowd(ctx context.Context, from, n int, pick func(i int) *instance, got func(answer)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(b.concurrency, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				at := pick(i)
				if at == nil {
					return
				}
				order := strconv.Itoa(from + i)
				if next := pick(i + 1); next != nil && b.clicks.twice(i) {
					got(b.clicks.best(b.both(ctx, order, at, next)))
					continue
				}
				got(b.one(ctx, order, at))
			}
		})
	}
	wg.Wait()
}

// one sends one request. It is not sent again: a request without an answer may
// have been served.
func (b *buyers) one(ctx context.Context, order string, at *instance) (a answer) {
	a = answer{order: order, instance: at}
	defer func() { a.at = time.Now() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		at.url+"/skus/"+url.PathEscape(shop.SKU)+"/deduct", http.NoBody)
	if err != nil {
		return a
	}
	req.Header.Set(shop.OrderHeader, order)
	resp, err := b.http.Do(req)
	if err != nil {
		a.Detail = err.Error()
		return a
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, &a.AnswerBody)
	}
	if err != nil {
		a.Detail = err.Error()
		return a
	}
	a.status = resp.StatusCode
	return a
}

// tally counts answers. Safe for concurrent use.
type tally struct {
	mu      sync.Mutex // guards all fields
	sold    map[string]bool
	refused map[string]int // by code
	unclear []answer       // the rest: nobody knows yet whether something was sold
	latest  time.Time      // when the last answer came
}

func newTally() *tally { return &tally{sold: map[string]bool{}, refused: map[string]int{}} }

func (t *tally) add(a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case a.status == http.StatusOK && a.Code == shop.CodeSold:
		t.sold[a.order] = true
	case a.refused():
		t.refused[a.Code]++
	default:
		t.unclear = append(t.unclear, a)
	}
	if a.at.After(t.latest) {
		t.latest = a.at
	}
}

// progress returns how many requests have been answered, and how many of them
// sold.
func (t *tally) progress() (done, sold int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	done = len(t.sold) + len(t.unclear)
	for _, n := range t.refused {
		done += n
	}
	return done, len(t.sold)
}

// reasons returns how many were refused, by code, and how many requests have no
// clear answer so far.
func (t *tally) reasons() (refused map[string]int, unclear int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.refused), len(t.unclear)
}

// settle looks up in the order book what became of the unclear requests, as a
// shop would before it charges anybody: the instance may have died between its
// write and its answer. It returns how many of them had been sold.
func (t *tally) settle(orders []string) (found int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	booked := map[string]bool{}
	for _, o := range orders {
		booked[o] = true
	}
	t.unclear = slices.DeleteFunc(t.unclear, func(a answer) bool {
		if booked[a.order] {
			t.sold[a.order] = true
			found++
		}
		return booked[a.order]
	})
	return found
}

// reached returns how many requests are known to have reached the handler:
// sold, or answered by it, and how many of them it answered with an error.
func (t *tally) reached() (n, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.unclear {
		if a.Code == shop.CodeFailed || a.Code == shop.CodeLockLost {
			failed++
		}
	}
	return len(t.sold) + t.refused[shop.CodeSoldOut] + t.refused[shop.CodeLateWrite] + failed, failed
}

// complaint describes one unclear request, "" if there is none.
func (t *tally) complaint() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unclear) == 0 {
		return ""
	}
	a := t.unclear[0]
	if a.status == 0 {
		return a.instance.name + ": " + a.Detail
	}
	return fmt.Sprintf("%s: %d %s %s", a.instance.name, a.status, a.Code, a.Detail)
}

// clicks counts the orders that were sent twice. A nil *clicks counts none.
// Safe for concurrent use.
type clicks struct {
	mu           sync.Mutex // guards all fields
	sent         int
	contradicted int
}

// twice reports whether the i-th order is sent twice.
func (c *clicks) twice(i int) bool { return c != nil && i%10 == 0 }

// best returns the answer that the buyer goes by, and counts two answers that
// contradict each other.
func (c *clicks) best(first, second answer) answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	if first.final() && second.final() && !first.agrees(second) {
		c.contradicted++
	}
	if !first.final() && second.final() {
		return second
	}
	return first
}

func (c *clicks) counts() (sent, contradicted int) {
	if c == nil {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent, c.contradicted
}

// final says that the buyer knows whether the item was sold. A call that was
// refused by the guard may be tried again.
func (a answer) final() bool {
	return a.status == http.StatusOK && a.Code == shop.CodeSold || a.Code == shop.CodeSoldOut
}

func (a answer) agrees(b answer) bool {
	if a.Receipt == nil || b.Receipt == nil {
		return a.Receipt == b.Receipt
	}
	return *a.Receipt == *b.Receipt
}

// both sends an order to two instances at the same time. It returns when both
// have answered.
func (b *buyers) both(ctx context.Context, order string, at, next *instance) (first, second answer) {
	var wg sync.WaitGroup
	wg.Go(func() { second = b.one(ctx, order, next) })
	first = b.one(ctx, order, at)
	wg.Wait()
	return first, second
}
