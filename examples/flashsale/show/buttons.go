package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// button is what a page sends along.
type button struct {
	Act      int       `json:"act"`
	Instance string    `json:"instance"` // a name, or "holder"
	Seconds  float64   `json:"seconds"`
	Mode     shop.Mode `json:"mode"`
	Stock    *int      `json:"stock"`
	Buyers   *int      `json:"buyers"`
	Requests *int      `json:"requests"`
	ThinkMS  *float64  `json:"think_ms"`
	Deaf     bool      `json:"deaf"`
}

func readButton(w http.ResponseWriter, r *http.Request, b *button) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the request is not understood: %w", err)
	}
	return nil
}

// refuse answers that nothing was done, and why.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // the browser has gone
}

// buttons are what a page can ask for.
func (st *stage) buttons() map[string]func(ctx context.Context, b button) error {
	on := func(do func(r *performance, ctx context.Context, b button) error) func(context.Context, button) error {
		return func(ctx context.Context, b button) error {
			r, err := st.current()
			if err != nil {
				return err
			}
			return do(r, ctx, b)
		}
	}
	return map[string]func(ctx context.Context, b button) error{
		"start": func(_ context.Context, b button) error {
			cfg, err := b.sale(st.cfg)
			if err != nil {
				return err
			}
			return st.start(cfg, 0)
		},
		"act": func(_ context.Context, b button) error {
			if b.Act < 1 || b.Act > len(scenes) {
				return fmt.Errorf("there is no act %d", b.Act)
			}
			return st.start(st.cfg, b.Act)
		},
		"stop":  func(context.Context, button) error { return st.stop() },
		"reset": func(context.Context, button) error { return st.reset() },
		"pause": on(func(r *performance, ctx context.Context,
			b button,
		) error {
			return r.pauseOne(ctx, b.Instance)
		}),
		"continue": on(func(r *performance, ctx context.Context,
			b button,
		) error {
			return r.continueOne(ctx, b.Instance)
		}),
		"kill":  on(func(r *performance, ctx context.Context, b button) error { return r.killOne(ctx, b.Instance) }),
		"spawn": on(func(r *performance, ctx context.Context, _ button) error { return r.spawn(ctx) }),
		"cut": on(func(r *performance, ctx context.Context, b button) error {
			return r.cutRedis(ctx, time.Duration(b.Seconds*float64(time.Second)))
		}),
	}
}

// Limits of a sale on the page, which draws every request.
const (
	maxStock    = 5000
	maxBuyers   = 200
	maxRequests = 20_000
	maxThink    = 2 * time.Second
)

// sale is the sale that b asks for.
func (b button) sale(cfg config) (config, error) {
	set := func(into, from *int) {
		if from != nil {
			*into = *from
		}
	}
	if b.Mode != "" {
		cfg.mode = b.Mode
	}
	set(&cfg.stock, b.Stock)
	set(&cfg.concurrency, b.Buyers)
	set(&cfg.requests, b.Requests)
	if b.ThinkMS != nil {
		cfg.think = time.Duration(*b.ThinkMS * float64(time.Millisecond))
	}
	if cfg.deaf = b.Deaf; !cfg.mode.Locked() {
		cfg.style = shop.StyleRoute
	}
	return cfg, cfg.checkWeb()
}

// checkWeb is check with the limits of the page.
func (c config) checkWeb() error {
	_, err := loopbackAddr(c.addr)
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.stock <= maxStock, "-stock is %d, want at most %d for the page", c.stock, maxStock)
	want(c.concurrency <= maxBuyers, "-concurrency is %d, want at most %d buyers for the page",
		c.concurrency, maxBuyers)
	want(c.requests <= maxRequests, "-requests is %d, want at most %d for the page", c.requests, maxRequests)
	want(c.think <= maxThink, "-think is %v, want at most %v for the page", c.think, maxThink)
	want(c.instances <= maxAlive, "-instances is %d, want at most %d for the page", c.instances, maxAlive)
	return errors.Join(append(errs, err, c.check())...)
}
