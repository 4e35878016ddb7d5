package show

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// sale is everything that one sale needs, running: Redis, the price service,
// the instances and the buyers.
type sale struct {
	cfg    config
	store  *store
	prices *priceService
	cutter *breaker // in front of Redis; nil: nobody may cut it off
	fleet  []*instance
	mu     sync.Mutex // guards fleet where instances are added during the sale
	buyers *buyers
	tally  *tally
	spans  *timeline // nil: nobody looks
	show   *show     // nil: nobody looks; set before anything is sold
	began  time.Time
	views  views
}

// runSale plays one sale from start to clean end.
func runSale(ctx context.Context, cfg config, con *console) (res result, err error) {
	s, err := openSale(ctx, cfg, nil)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	printScene(con, s)

	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch(watching, con, s.tally, cfg.requests, cfg.stock)
	}()
	stopViewers := s.startViewers(ctx)
	s.sell(ctx, 1, cfg.requests, s.fleet)
	s.views = stopViewers()
	stop()
	<-watched
	if res, err = s.result(ctx); err != nil || res.Errors > 0 || len(res.broken()) > 0 {
		printLogs(con, s.fleet)
	}
	if err == nil && res.InstancesMissing == res.Instances {
		err = errors.New("no instance is left")
	}
	if err == nil && cfg.trace {
		s.printTrace(ctx, con)
	}
	return res, err
}

// openSale starts all parts of a sale. The caller closes it.
func openSale(ctx context.Context, cfg config, spans *timeline) (_ *sale, err error) {
	s := &sale{cfg: cfg, tally: newTally(), spans: spans}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.store, err = openStore(ctx, cfg, strings.ToLower(rand.Text()[:8])); err != nil {
		return nil, err
	}
	if s.prices, err = startPriceService(ctx, cfg.think, spans); err != nil {
		return nil, err
	}
	if cfg.live && s.store.redis.single != nil {
		if s.cutter, err = s.store.startBreaker(ctx); err != nil {
			return nil, err
		}
	}
	if s.fleet, err = startFleet(ctx, cfg.instances, s.settings); err != nil {
		return nil, err
	}
	// The limit is for an instance that hangs: no answer of the guard takes
	// that long.
	s.buyers = &buyers{http: newHTTPClient(cfg.wait + cfg.ttl + 30*time.Second), concurrency: cfg.concurrency}
	if cfg.style == shop.StyleOnce {
		s.buyers.clicks = &clicks{}
	}
	s.began = time.Now()
	return s, nil
}

// settings returns those of one instance.
func (s *sale) settings(name string) instanceConfig {
	c := instanceConfig{
		Name: name, Mode: s.cfg.mode, Style: s.cfg.style, Redis: s.store.addr,
		Prices: s.prices.url, Prefix: s.store.prefix,
		TTL: s.cfg.ttl, Wait: s.cfg.wait, Trace: s.cfg.trace, OTLP: s.cfg.otlp, Deaf: s.cfg.deaf, Live: s.cfg.live,
	}
	if s.cutter != nil {
		c.RedisVia = s.cutter.Addr
	}
	return c
}

// instances returns all instances so far.
func (s *sale) instances() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.fleet)
}

// addInstance starts one more.
func (s *sale) addInstance(ctx context.Context) (*instance, error) {
	more, err := startFleet(ctx, 1, func(string) instanceConfig {
		return s.settings(fmt.Sprintf("app-%d", len(s.instances())+1))
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fleet = append(s.fleet, more...)
	return more[0], nil
}

// halt pauses an instance, and resume lets it go on.
func (s *sale) halt(in *instance) error {
	if err := in.halt(); err != nil {
		return err
	}
	in.halted.Store(true)
	s.show.lane(in, lanePaused)
	return nil
}

func (s *sale) resume(in *instance) error {
	s.show.lane(in, laneUp)
	in.halted.Store(false)
	return in.resume()
}

// close ends everything, instances first, and leaves no key of this run in
// Redis.
func (s *sale) close() error {
	s.show.close()
	stopFleet(s.fleet)
	if s.cutter != nil {
		s.cutter.close()
	}
	if s.buyers != nil {
		s.buyers.http.CloseIdleConnections()
	}
	if s.prices != nil {
		s.prices.close()
	}
	if s.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.store.close(ctx); err != nil {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	return nil
}

// errLeft says that something of a run may be left in Redis.
var errLeft = errors.New("not all of this run could be removed")

// sell lets buyers send the requests numbered from to from+n-1 to the given
// instances, and counts the answers.
func (s *sale) sell(ctx context.Context, from, n int, at []*instance) {
	s.buyers.buy(ctx, from, n, at, s.note)
}

// note counts an answer.
func (s *sale) note(a answer) {
	s.tally.add(a)
	s.show.heard(a)
	if a.Code == shop.CodeSoldOut {
		s.spans.add(a.instance.name, a.at, a.at, markSoldOut)
	}
	if a.Code == shop.CodeSold && s.cfg.mode == shop.ModeAtomic { // else the price service has noted the whole step
		s.spans.add(a.instance.name, a.at, a.at, markSold)
	}
}

// result asks Redis and the instances what came of it.
func (s *sale) result(ctx context.Context) (result, error) {
	seconds := s.tally.latest.Sub(s.began).Seconds()
	left, orders, err := s.count(ctx)
	if err != nil {
		return result{}, fmt.Errorf("count the orders: %w", err)
	}
	found := s.tally.settle(orders)
	done, sold := s.tally.progress()
	reached, failed := s.tally.reached()
	res := result{
		Mode: s.cfg.mode, Style: s.cfg.style, Redis: s.store.name, Instances: s.cfg.instances,
		Requests: s.cfg.requests, Stock: s.cfg.stock,
		Sold: sold, Orders: len(orders), Reached: reached, Failed: failed, Settled: found,
		LateWrites:      s.tally.refused[shop.CodeLateWrite],
		RefusedByReason: s.tally.refused,
		Errors:          len(s.tally.unclear),
		Complaint:       s.tally.complaint(),
		Seconds:         round(seconds, 3),
		RPS:             round(float64(done)/seconds, 1),
		EmbeddedRedis:   s.store.mini != nil,
		Views:           s.views.seen,
		OddViews:        s.views.odd,
		replicated:      s.store.redis.replicated(),
		Left:            left,
	}
	res.Oversold, res.LostUpdates = harm(s.cfg.stock, left, len(orders))
	res.SentTwice, res.Contradicted = s.buyers.clicks.counts()
	res.OrderedTwice = len(orders) - len(slices.Compact(slices.Sorted(slices.Values(orders))))
	for _, n := range res.RefusedByReason {
		res.Refused += n
	}
	s.measure(ctx, &res)
	return res, nil
}

// countLimit is for how long the book is asked: a failover may be on its way.
const countLimit = 15 * time.Second

// count returns what is left, and all orders.
func (s *sale) count(ctx context.Context) (left int, orders []string, err error) {
	for end := time.Now().Add(countLimit); ; shop.Pause(ctx, 100*time.Millisecond) {
		if left, _, err = s.store.book.Glance(ctx); err == nil {
			orders, err = s.store.book.Orders(ctx)
		}
		if err == nil || ctx.Err() != nil || !s.store.redis.replicated() || time.Now().After(end) {
			return left, orders, err
		}
	}
}

// measure merges what the metrics of the instances say: those that still live.
func (s *sale) measure(ctx context.Context, res *result) {
	var all stats
	for _, in := range s.instances() {
		var one stats
		if err := in.get(ctx, s.buyers.http, "/stats", &one); err != nil {
			res.InstancesMissing++
			continue
		}
		all.add(one)
	}
	res.WaitP50, res.WaitP99 = round(ms(all.Waits.quantile(0.50)), 3), round(ms(all.Waits.quantile(0.99)), 3)
	res.HoldP50, res.HoldP99 = round(ms(all.Holds.quantile(0.50)), 3), round(ms(all.Holds.quantile(0.99)), 3)
	res.LeasesLost = int(all.LeasesLost)
}

// round rounds x to so many decimals.
func round(x float64, decimals int) float64 {
	unit := math.Pow10(decimals)
	return math.Round(x*unit) / unit
}

// get asks an instance for something that it has measured.
func (in *instance) get(ctx context.Context, client *http.Client, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, in.url+path, http.NoBody) //nolint:gosec // our child's
	if err != nil {
		return err
	}
	resp, err := client.Do(req) //nolint:gosec // see above
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// viewPause is between two looks of a viewer.
const viewPause = 10 * time.Millisecond

// views are the pages of the item that were looked at while it was sold.
type views struct {
	seen int
	odd  int // with a stock and orders that do not add up
}

// startViewers looks at the page of the item again and again, at each instance,
// until stop is called. stop blocks until the looks under way have ended. Each
// viewer looks at least once.
func (s *sale) startViewers(ctx context.Context) (stop func() views) {
	ending := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex // guards all
	var all views
	for _, in := range s.fleet {
		wg.Go(func() {
			for {
				var page shop.Page
				err := in.get(ctx, s.buyers.http, "/skus/"+url.PathEscape(shop.SKU), &page)
				if err == nil {
					mu.Lock()
					all.seen++
					if page.Left+page.Orders != s.cfg.stock {
						all.odd++
					}
					mu.Unlock()
				}
				select {
				case <-ending:
					return
				case <-ctx.Done():
					return
				case <-time.After(viewPause):
				}
			}
		})
	}
	return func() views {
		close(ending)
		wg.Wait()
		return all
	}
}

// priceService is the other side, in the parent process: it takes its time, and
// knows when an instance is in mid-step.
type priceService struct {
	url   string
	think time.Duration
	spans *timeline // nil: nobody looks
	srv   *http.Server

	mu   sync.Mutex // guards what follows; not held while a call waits
	held map[string]*heldCall
	next chan string // gets the name of the instance that asks next; nil: nobody wants to know
}

// heldCall is a call whose answer waits for a word from the parent.
type heldCall struct {
	asked  chan struct{} // closed by the service when the question has come
	answer chan struct{} // closed by the parent
}

func startPriceService(ctx context.Context, think time.Duration, spans *timeline) (*priceService, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("price service: %w", err)
	}
	p := &priceService{url: "http://" + l.Addr().String(), think: think, spans: spans, held: map[string]*heldCall{}}
	p.srv = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.srv.Serve(l) }() // ends with close
	return p, nil
}

// close ends the service and every call to it.
func (p *priceService) close() { p.srv.Close() }

// hold keeps back the answer to one order: asked is closed when the question
// has come, answer lets the answer go.
func (p *priceService) hold(order string) (asked <-chan struct{}, answer func()) {
	h := &heldCall{asked: make(chan struct{}), answer: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[order] = h
	return h.asked, sync.OnceFunc(func() { close(h.answer) })
}

// takeHeld returns the order's held call, once.
func (p *priceService) takeHeld(order string) *heldCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[order]
	delete(p.held, order)
	return h
}

// asker returns a channel that gets the name of the instance that asks next: it
// is in mid-step at that moment.
func (p *priceService) asker() <-chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = make(chan string, 1)
	return p.next
}

func (p *priceService) tellAsker(instance string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil {
		p.next <- instance // has room
		p.next = nil
	}
}

func (p *priceService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	p.tellAsker(r.FormValue("instance"))
	if h := p.takeHeld(r.FormValue("order")); h != nil {
		close(h.asked)
		select {
		case <-h.answer:
		case <-r.Context().Done():
		}
	} else {
		shop.Pause(r.Context(), p.think)
	}
	p.spans.add(r.FormValue("instance"), began, time.Now(), markInStep)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shop.Quote{Cents: 1999}) // an instance may have died
}
