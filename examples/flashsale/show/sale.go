package show

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/internal/faultpipe"
)

// sale is everything that one sale needs, running: Redis, the price service,
// the instances and the buyers.
type sale struct {
	cfg    config
	store  *store
	prices *priceService
	cutter *faultpipe.Lossy // in front of Redis; nil: nobody may cut it off
	buyers *buyers
	ledger *ledger

	mu    sync.Mutex  // guards what follows
	fleet []*instance // instances are added during the sale
	views views
}

// runSale plays one sale from start to clean end.
func runSale(ctx context.Context, cfg config, con *console) (res result, err error) {
	s, err := openSale(ctx, cfg)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
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
	if res, err = s.result(ctx); err != nil || res.Errors > 0 || len(res.broken()) > 0 {
		printLogs(con, s.fleet)
	}
	if err == nil && !slices.ContainsFunc(s.fleet, func(in *instance) bool { return !in.lost }) {
		err = errors.New("no instance is left")
	}
	if err == nil && cfg.Trace {
		printTrace(con, spans)
	}
	return res, err
}

// openSale starts all parts of a sale. The caller closes it.
func openSale(ctx context.Context, cfg config) (_ *sale, err error) {
	s := &sale{cfg: cfg, ledger: newLedger()}
	defer func() {
		if err != nil {
			_ = s.close() // err says more
		}
	}()
	if s.store, err = openStore(ctx, cfg, strings.ToLower(rand.Text()[:8])); err != nil {
		return nil, err
	}
	if s.prices, err = startPriceService(ctx, cfg.Think); err != nil {
		return nil, err
	}
	if cfg.onPage() && s.store.redis.Single != nil {
		if s.cutter, err = faultpipe.OpenLossy(ctx, s.store.redis.Single.Addr); err != nil {
			return nil, err
		}
	}
	// The limit is for an instance that hangs: no answer of the guard takes
	// that long.
	s.buyers = &buyers{http: newHTTPClient(cfg.Wait + cfg.TTL + 30*time.Second), n: cfg.Buyers}
	s.buyers.twice = cfg.Style == shop.StyleOnce
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
		config: s.cfg, Name: fmt.Sprintf("app-%d", n), Redis: s.store.addr, Prices: s.prices.url,
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
		s.ledger.follow(in, s.cfg.Mode.Locked())
	}
}

// instances returns all instances so far.
func (s *sale) instances() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.fleet)
}

// halt pauses an instance, and resume lets it go on.
func (s *sale) halt(in *instance) error {
	if err := in.halt(); err != nil {
		return fmt.Errorf("pause %s: %w", in.name, err)
	}
	in.halted.Store(true)
	s.ledger.setLane(in, lanePaused)
	return nil
}

func (s *sale) resume(in *instance) error {
	s.ledger.setLane(in, laneUp)
	in.halted.Store(false)
	if err := in.resume(); err != nil {
		return fmt.Errorf("continue %s: %w", in.name, err)
	}
	return nil
}

// sell lets buyers send the requests numbered from to from+n-1 to the given
// instances, and counts the answers.
func (s *sale) sell(ctx context.Context, from, n int, at []*instance) {
	s.buyers.buy(ctx, from, n, inTurn(at), s.ledger.heard)
}

// end ends the instances. It returns when all that they had to tell is in the
// ledger. Ending twice does nothing.
func (s *sale) end() {
	s.ledger.close()
	if s.buyers != nil {
		s.buyers.http.CloseIdleConnections() // an instance waits for those
	}
	var wg sync.WaitGroup
	for _, in := range s.instances() {
		if !in.ended {
			in.ended, in.lost = true, !in.alive()
		}
		wg.Go(in.stop)
	}
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
		s.prices.srv.Close() // and every call to it
	}
	if s.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := s.store.close(ctx); err != nil {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	return nil
}

// errLeft says that something of a run may be left in Redis.
var errLeft = errors.New("not all of this run could be removed")

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
		pace: pace{
			Seconds: round(max(0.001, l.latest.Sub(l.began).Seconds()), 3),
			WaitP50: known(quantile(l.waits, 0.50)), WaitP99: known(quantile(l.waits, 0.99)),
			HoldP50: known(quantile(l.holds, 0.50)), HoldP99: known(quantile(l.holds, 0.99)),
		},
		reach: l.settle(orders), twice: s.buyers.sum, views: s.views,
	}
	res.counts = l.counts() // after settle
	res.counts.compare(s.cfg.Stock, left, len(orders))
	res.RPS = round(float64(res.Answered)/res.Seconds, 1)
	res.OrderedTwice = len(orders) - len(slices.Compact(slices.Sorted(slices.Values(orders))))
	return res, nil
}

// viewPause is between two looks of a viewer.
const viewPause = 10 * time.Millisecond

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
				err := in.ask(context.WithoutCancel(ctx), s.buyers.http, "/skus/"+url.PathEscape(shop.SKU), &page)
				if err == nil {
					s.mu.Lock()
					s.views.Views++
					if page.Left+page.Orders != s.cfg.Stock {
						s.views.OddViews++
					}
					s.mu.Unlock()
				}
				shop.Pause(ctx, viewPause)
			}
		})
	}
	wg.Wait()
}

// priceService is the other side, in the parent process: it takes its time, and
// knows when an instance is in mid-step.
type priceService struct {
	url   string
	think time.Duration
	srv   *http.Server
	held  sync.Map // by order: a func(*http.Request) that returns when it may be answered
}

// anyOrder stands for the order that is asked for next.
const anyOrder = ""

func startPriceService(ctx context.Context, think time.Duration) (*priceService, error) {
	p := &priceService{think: think}
	srv, _, err := serve(ctx, "127.0.0.1:0", p)
	if err != nil {
		return nil, fmt.Errorf("price service: %w", err)
	}
	p.srv, p.url = srv, "http://"+srv.Addr
	return p, nil
}

// hold keeps back the answer to one order. asked gets the name of the instance
// that asks: it is in mid-step then. answer lets the answer go.
func (p *priceService) hold(order string) (asked <-chan string, answer func()) {
	by, word := make(chan string, 1), make(chan struct{})
	p.held.Store(order, func(r *http.Request) {
		by <- r.FormValue("instance") // has room
		select {
		case <-word:
		case <-r.Context().Done():
		}
	})
	return by, sync.OnceFunc(func() { close(word) })
}

func (p *priceService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, order := range []string{anyOrder, r.FormValue("order")} {
		if wait, found := p.held.LoadAndDelete(order); found {
			wait.(func(*http.Request))(r) //nolint:forcetypeassert // nothing else is stored
		}
	}
	shop.Pause(r.Context(), p.think)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shop.Quote{Cents: 1999}) // an instance may have died
}
