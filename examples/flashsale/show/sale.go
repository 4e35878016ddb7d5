package show

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/internal/faultpipe"
)

// sale is everything that one sale needs, running: Redis, the price service,
// the instances and the buyers.
type sale struct {
	cfg    config
	store  *store
	prices *http.Server
	held   sync.Map         // by order: a func(*http.Request) that returns when its price may be told
	cutter *faultpipe.Lossy // in front of Redis; nil: nobody may cut it off
	ledger *ledger
	http   *http.Client // of the buyers

	mu    sync.Mutex  // guards what follows
	fleet []*instance // instances are added during the sale
	ended bool
	views views
	twice twice // without what the book says
}

// runSale plays one sale from start to clean end.
func runSale(ctx context.Context, cfg config, con *console) (res result, err error) {
	err = withSale(ctx, cfg, func(s *sale) (err error) {
		printScene(con, s)
		watching, stop := context.WithCancel(ctx)
		var watched sync.WaitGroup
		watched.Go(func() { s.watch(watching, con) })
		watched.Go(func() { s.look(watching) })
		s.sell(ctx, 1, cfg.Requests, s.fleet)
		stop()
		watched.Wait()
		var spans []traced
		if cfg.Trace {
			spans = s.spans(ctx)
		}
		res, err = s.result(ctx)
		if err != nil || res.Errors > 0 || len(res.broken()) > 0 {
			printLogs(con, s.fleet)
		}
		switch {
		case err != nil:
		case !slices.ContainsFunc(s.fleet, func(in *instance) bool { return !in.lost }):
			err = errors.New("no instance is left")
		case cfg.Trace:
			printTrace(con, spans)
		}
		return err
	})
	return res, err
}

// withSale opens a sale for play, and closes it.
func withSale(ctx context.Context, cfg config, play func(*sale) error) error {
	s, err := openSale(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(play(s), s.close())
}

// openSale starts all parts of a sale. The caller closes it.
func openSale(ctx context.Context, cfg config) (_ *sale, err error) {
	// The limit is for an instance that hangs: no answer of the guard takes
	// that long.
	s := &sale{cfg: cfg, ledger: newLedger(), http: newHTTPClient(cfg.Wait + cfg.TTL + 30*time.Second)}
	defer func() {
		if err != nil {
			_ = s.close() // err says more
		}
	}()
	if s.store, err = openStore(ctx, cfg, strings.ToLower(rand.Text()[:8])); err != nil {
		return nil, err
	}
	if s.prices, _, err = serve(ctx, "127.0.0.1:0", http.HandlerFunc(s.price)); err != nil {
		return nil, fmt.Errorf("price service: %w", err)
	}
	if cfg.onPage() && s.store.redis.Single != nil {
		if s.cutter, err = faultpipe.OpenLossy(ctx, s.store.redis.Single.Addr); err != nil {
			return nil, err
		}
	}
	fleet, err := startFleet(ctx, cfg.Instances, s.settings)
	if err != nil {
		return nil, err
	}
	s.ledger = newLedger() // the time begins now
	s.add(fleet)
	return s, nil
}

// settings returns those of the n-th instance.
func (s *sale) settings(n int) instanceConfig {
	c := instanceConfig{
		config: s.cfg, Name: fmt.Sprintf("app-%d", n), Redis: s.store.addr, Prices: "http://" + s.prices.Addr,
		Prefix: s.store.prefix, OTLP: s.cfg.otlp,
	}
	if s.cutter != nil {
		c.RedisVia = s.cutter.Addr
	}
	return c
}

// add takes instances into the sale.
func (s *sale) add(fleet []*instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range fleet {
		s.fleet = append(s.fleet, in)
		s.ledger.follow(in)
	}
}

// instances returns all instances so far.
func (s *sale) instances() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.fleet)
}

// living returns those that have not gone.
func (s *sale) living() []*instance {
	return slices.DeleteFunc(slices.Clone(s.instances()), func(in *instance) bool { return !in.alive() })
}

// halt pauses an instance, and resume lets it go on.
func (s *sale) halt(in *instance) error {
	in.halted.Store(true)
	s.ledger.setLane(in.name, lanePaused)
	return in.halt()
}

func (s *sale) resume(in *instance) error {
	s.ledger.setLane(in.name, laneUp)
	in.halted.Store(false)
	return in.resume()
}

// skuPath is the item's place at an instance.
const skuPath = "/skus/" + shop.SKU

// sell lets buyers send the requests numbered from to from+n-1 to the given
// instances, and counts the answers.
func (s *sale) sell(ctx context.Context, from, n int, at []*instance) {
	s.buy(ctx, from, n, inTurn(at), s.ledger.heard)
}

// end ends the instances. It returns when all that they had to tell is in the
// ledger. Ending twice does nothing.
func (s *sale) end() {
	s.ledger.close()
	s.http.CloseIdleConnections() // an instance waits for those
	var wg sync.WaitGroup
	for _, in := range s.instances() {
		in.lost = in.lost || !s.ended && !in.alive()
		wg.Go(in.stop)
	}
	s.ended = true
	wg.Wait()
	s.ledger.work.Wait()
}

// close ends everything, instances first, and leaves no key of this run in
// Redis.
func (s *sale) close() error {
	s.end()
	if s.cutter != nil {
		s.cutter.Close()
	}
	if s.prices != nil {
		s.prices.Close() // and every call to it
	}
	if s.store == nil {
		return nil
	}
	return s.store.close()
}

// result ends the instances, and asks Redis and the ledger what came of it.
func (s *sale) result(ctx context.Context) (result, error) {
	s.end()
	left, err1 := s.store.book.Read(ctx, shop.SKU, 0)
	orders, err2 := s.store.book.Orders(ctx)
	if err := errors.Join(err1, err2); err != nil {
		return result{}, fmt.Errorf("count the orders: %w", err)
	}
	l := s.ledger
	res := result{
		setting: s.cfg.setting, Redis: s.store.name, EmbeddedRedis: s.store.mini != nil,
		replicated: s.store.redis.replicated(),
		Seconds:    round(max(0.001, l.latest.Sub(l.began).Seconds()), 3),
		reach:      l.settle(orders), twice: s.twice, views: s.views,
	}
	if s.cfg.Mode.Locked() {
		res.quantiles = l.quantiles()
	}
	res.counts = l.counts() // after settle
	res.counts.compare(s.cfg.Stock, left, len(orders))
	res.RPS = round(float64(res.Answered)/res.Seconds, 1)
	res.OrderedTwice = len(orders) - len(slices.Compact(slices.Sorted(slices.Values(orders))))
	return res, nil
}

// anyOrder stands for the order whose price is asked next.
const anyOrder = ""

// hold keeps back the price for one order. asked gets the name of the instance
// that asks: it is in mid-step then. answer lets the answer go.
func (s *sale) hold(order string) (asked <-chan string, answer func()) {
	by, word := make(chan string, 1), make(chan struct{})
	s.held.Store(order, func(r *http.Request) {
		by <- r.FormValue("instance") // has room
		select {
		case <-word:
		case <-r.Context().Done():
		}
	})
	return by, sync.OnceFunc(func() { close(word) })
}

// price is the price service, in the parent process: it takes its time.
func (s *sale) price(w http.ResponseWriter, r *http.Request) {
	for _, order := range []string{anyOrder, r.FormValue("order")} {
		if wait, found := s.held.LoadAndDelete(order); found {
			wait.(func(*http.Request))(r) //nolint:forcetypeassert // nothing else is stored
		}
	}
	shop.Pause(r.Context(), s.cfg.Think)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shop.Quote{Cents: 1999}) // an instance may have died
}

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
	no := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	return slices.Contains(no, a.status)
}

// final says that the buyer knows whether the item was sold. A call that was
// refused by the guard may be tried again.
func (a answer) final() bool { return a.sold() || a.Code == shop.CodeSoldOut }

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
func (s *sale) buy(ctx context.Context, from, n int, pick func(i int) *instance, got func(answer)) {
	var sent atomic.Int64
	var wg sync.WaitGroup
	for range min(s.cfg.Buyers, n) {
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
				if s.cfg.Style != shop.StyleOnce || i%10 != 0 {
					got(s.one(ctx, order, at))
					continue
				}
				second := make(chan answer, 1)
				go func() { second <- s.one(ctx, order, next) }() // joined below
				got(s.best(s.one(ctx, order, at), <-second))
			}
		})
	}
	wg.Wait()
}

// one sends one request. It is not sent again: a request without an answer may
// have been served.
func (s *sale) one(ctx context.Context, order string, at *instance) (a answer) {
	a = answer{order: order, instance: at}
	defer func() { a.at = time.Now() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.url+skuPath+"/deduct", http.NoBody)
	if err != nil {
		return a
	}
	req.Header.Set(shop.OrderHeader, order)
	resp, err := s.http.Do(req)
	if err == nil {
		defer resp.Body.Close()
		err = json.NewDecoder(resp.Body).Decode(&a.AnswerBody)
	}
	if err != nil {
		a.Detail = err.Error()
		return a
	}
	a.status = resp.StatusCode
	return a
}

// best returns the answer that the buyer goes by, and counts two answers that
// contradict each other.
func (s *sale) best(first, second answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.twice.SentTwice++
	one, other := first.Receipt, second.Receipt
	agree := one == other || one != nil && other != nil && *one == *other
	if first.final() && second.final() && !agree {
		s.twice.Contradicted++
	}
	if !first.final() && second.final() {
		return second
	}
	return first
}

// views are the pages of the item that were looked at while it was sold.
type views struct {
	Views    int `json:"page_views"`
	OddViews int `json:"odd_page_views"` // with a stock and orders that do not add up
}

// look looks at the page of the item again and again, at each instance, until
// ctx ends and the looks under way have ended. Each viewer looks at least once.
func (s *sale) look(ctx context.Context) {
	var wg sync.WaitGroup
	for _, in := range s.fleet {
		wg.Go(func() {
			for more := true; more; more = ctx.Err() == nil {
				var page shop.Page
				err := shop.GetJSON(context.WithoutCancel(ctx), s.http, in.url+skuPath, &page)
				s.mu.Lock()
				if err == nil {
					s.views.Views++
				}
				if err == nil && page.Left+page.Orders != s.cfg.Stock {
					s.views.OddViews++
				}
				s.mu.Unlock()
				shop.Pause(ctx, 10*time.Millisecond)
			}
		})
	}
	wg.Wait()
}
