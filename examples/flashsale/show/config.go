package show

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// config is one sale, as the flags describe it.
type config struct {
	mode        shop.Mode
	style       shop.Style
	redis       string // see redisForms; "" is the embedded one
	instances   int
	requests    int
	concurrency int
	stock       int
	think       time.Duration
	ttl         time.Duration
	wait        time.Duration
	json        bool
	story       bool
	trace       bool
	otlp        string // URL; "": nowhere

	web    bool   // a live page instead of one sale
	addr   string // of the page; "": a free port
	record string // file for the page with the run frozen in it; "": none

	deaf bool // no flag: see shop.Shop.Deaf
	live bool // no flag: follow every request, for a page
}

// defaultConfig is the sale without flags. The TTL is below the wait, so that
// the crash of an instance delays buyers but turns nobody away.
func defaultConfig() config {
	return config{
		mode:        shop.ModeFence,
		style:       shop.StyleRoute,
		instances:   4,
		requests:    2000,
		concurrency: 100,
		stock:       500,
		think:       2 * time.Millisecond,
		ttl:         2 * time.Second,
		wait:        5 * time.Second,
	}
}

func newFlagSet(c *config) *flag.FlagSet {
	*c = defaultConfig()
	fs := flag.NewFlagSet("flashsale", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar((*string)(&c.mode), "mode", string(c.mode),
		"none: no lock · lock: a guard on the route · fence: guard and fencing token · atomic: the step as one "+
			"script, without the price call")
	fs.StringVar((*string)(&c.style), "style", string(c.style),
		"where the guard stands. route: in front of the handler · wrap: guard.Wrap around the step · generated: a "+
			"decorator by guardgen · once: as wrap, inside guard.Once, and each tenth order is sent twice")
	fs.StringVar(&c.redis, "redis", c.redis, "Redis to use, as `URL or host:port`, also "+
		"redis+sentinel://host:port,host:port/master and redis+cluster://host:port,host:port; without it one runs "+
		"embedded, in this process")
	fs.IntVar(&c.instances, "instances", c.instances, "app instances, each a process")
	fs.IntVar(&c.requests, "requests", c.requests, "requests in all, round robin over the instances")
	fs.IntVar(&c.concurrency, "concurrency", c.concurrency, "buyers that send them, each one at a time")
	fs.IntVar(&c.stock, "stock", c.stock, "items for sale")
	fs.DurationVar(&c.think, "think", c.think, "latency of the price service")
	fs.DurationVar(&c.ttl, "ttl", c.ttl, "TTL of a lease: how long a crashed holder blocks the others")
	fs.DurationVar(&c.wait, "wait", c.wait, "how long a request waits for the key before it is refused")
	fs.BoolVar(&c.json, "json", c.json, "print the result as JSON in the last line of stdout, everything "+
		"else to stderr")
	fs.BoolVar(&c.story, "story", c.story, "play five short acts with a timeline instead of one sale; goes "+
		"with -redis only")
	fs.BoolVar(&c.trace, "trace", c.trace, "follow the buyer who waited longest behind another instance, as a "+
		"waterfall of spans")
	fs.Var(webFlag{c}, "web", "show it live in a browser, at a free port or at this `host:port` of this machine")
	fs.StringVar(&c.record, "record", c.record,
		"write the page with the sale frozen in it to this `file`.html, to be looked at later")
	fs.StringVar(&c.otlp, "otlp", c.otlp, "send spans and metrics to the OpenTelemetry collector at this `URL`, such "+
		"as http://localhost:4318")
	return fs
}

// parseFlags reads and checks the command line. Its errors name the flag and
// what is wanted.
func parseFlags(args []string) (config, error) {
	var c config
	fs := newFlagSet(&c)
	if err := fs.Parse(joinWeb(args)); err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if c.story {
		var err error
		fs.Visit(func(f *flag.Flag) {
			if f.Name != "story" && f.Name != "redis" {
				err = fmt.Errorf("-story sets the scene of its acts itself: leave out -%s", f.Name)
			}
		})
		if err != nil {
			return c, err
		}
	}
	if c.web || c.record != "" {
		c.calm(fs)
		return c, c.checkWeb()
	}
	return c, c.check()
}

func (c config) check() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(slices.Contains(shop.Modes, c.mode), "-mode is %q, want none, lock, fence or atomic", c.mode)
	want(slices.Contains(shop.Styles, c.style), "-style is %q, want route, wrap, generated or once", c.style)
	want(c.style == shop.StyleRoute || c.mode.Locked(), "-style %s needs a guard: -mode lock or fence", c.style)
	want(c.instances >= 1 && c.instances <= 64, "-instances is %d, want 1 to 64", c.instances)
	want(c.requests >= 1, "-requests is %d, want at least 1", c.requests)
	want(c.concurrency >= 1, "-concurrency is %d, want at least 1", c.concurrency)
	want(c.stock >= 0, "-stock is %d, want 0 or more", c.stock)
	want(c.think >= 0, "-think is %v, want 0 or more", c.think)
	want(c.ttl >= 100*time.Millisecond && c.ttl%time.Millisecond == 0,
		"-ttl is %v, want at least 100ms in whole milliseconds", c.ttl)
	want(c.wait >= 0, "-wait is %v, want 0 or more", c.wait)
	if c.redis != "" {
		_, err := parseRedis(c.redis)
		want(err == nil, "-redis: %v", err)
	}
	want(!c.web && c.record == "" || !c.trace, "-trace follows one sale: leave out -web and -record")
	want(!c.trace || c.mode.Locked(), "-trace follows a buyer who waits for the lock: use -mode lock or fence")
	if c.otlp != "" {
		u, err := url.Parse(c.otlp)
		want(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
			"-otlp is %q, want an http or https URL", c.otlp)
	}
	return errors.Join(errs...)
}
