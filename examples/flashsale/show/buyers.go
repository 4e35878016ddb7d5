package show

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
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

// sold says that the buyer was told that the item is his.
func (a answer) sold() bool { return a.status == http.StatusOK && a.Code == shop.CodeSold }

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
	http  *http.Client
	n     int
	twice bool // each tenth order is sent to two instances at once

	mu  sync.Mutex // guards sum
	sum twice      // without what the book says
}

// twice counts orders that were sent twice.
type twice struct {
	SentTwice    int `json:"sent_twice"`
	OrderedTwice int `json:"ordered_twice"`
	Contradicted int `json:"contradicted"` // with two answers that cannot both be true
}

// newHTTPClient returns a client that keeps its connections. 0 means no time
// limit of its own.
func newHTTPClient(limit time.Duration) *http.Client {
	return &http.Client{
		Timeout:   limit,
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000, IdleConnTimeout: time.Minute},
	}
}

// inTurn picks the instances round robin.
func inTurn(at []*instance) (pick func(i int) *instance) {
	return func(i int) *instance { return at[i%len(at)] }
}

// buy sends the requests numbered from to from+n-1, each to the instance that
// pick chooses, and calls got with each answer, from many goroutines. It
// returns when all have been answered, or ctx has ended; nil of pick sends the
// buyer home.
func (b *buyers) buy(ctx context.Context, from, n int, pick func(i int) *instance, got func(answer)) {
	var sent atomic.Int64
	var wg sync.WaitGroup
	for range min(b.n, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(sent.Add(1)) - 1
				if i >= n {
					return
				}
				at, next := pick(i), pick(i+1)
				if at == nil || next == nil {
					return
				}
				order := strconv.Itoa(from + i)
				if !b.twice || i%10 != 0 {
					got(b.one(ctx, order, at))
					continue
				}
				second := make(chan answer, 1)
				go func() { second <- b.one(ctx, order, next) }() // joined below
				got(b.best(b.one(ctx, order, at), <-second))
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
	if err := json.NewDecoder(resp.Body).Decode(&a.AnswerBody); err != nil {
		a.Detail = err.Error()
		return a
	}
	a.status = resp.StatusCode
	return a
}

// best returns the answer that the buyer goes by, and counts two answers that
// contradict each other.
func (b *buyers) best(first, second answer) answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum.SentTwice++
	if first.final() && second.final() && !first.agrees(second) {
		b.sum.Contradicted++
	}
	if !first.final() && second.final() {
		return second
	}
	return first
}

// final says that the buyer knows whether the item was sold. A call that was
// refused by the guard may be tried again.
func (a answer) final() bool { return a.sold() || a.Code == shop.CodeSoldOut }

func (a answer) agrees(b answer) bool {
	if a.Receipt == nil || b.Receipt == nil {
		return a.Receipt == b.Receipt
	}
	return *a.Receipt == *b.Receipt
}
