// Package show plays the flash sale: it starts the instances and the buyers,
// counts what came of it, and tells it on a console or a page. Package shop has
// what an instance sells by.
//
// Where to look:
//
//   - main.go: the command and its flags
//   - sale.go, buyers.go: one sale
//   - ledger.go: what is known about each request
//   - fleet.go, instance.go: the processes
//   - store.go: where stock and orders are kept
//   - console.go, report.go: what people read
//   - story.go: the five acts
//   - web.go, stage.go: the page
//   - trace.go, telemetry.go: what spans tell
package show

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1 // an invariant is broken, or the run itself failed
	exitUsage       = 2
	exitInterrupted = 130
)

// Main is the program with these arguments. It returns its exit status when all
// that it has started has ended. In a process that it has started itself it is
// one app instance.
func Main(args []string, stdout, stderr io.Writer) int {
	if settings := os.Getenv(instanceEnv); settings != "" {
		return instanceMain(settings)
	}
	return run(args, stdout, stderr)
}

// run is the parent process: one sale, the story, or the live page.
func run(args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(stdout, args[len(args)-1] == "all")
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "flashsale: %v\nflashsale: -h lists the flags\n", err)
		return exitUsage
	}

	// The first signal ends the run in good order, a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	ok, err := play(ctx, cfg, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "flashsale: interrupted, the instances are stopped")
		if errors.Is(err, errLeft) { // else err is the interruption itself
			fmt.Fprintf(stderr, "flashsale: %v\n", err)
		}
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "flashsale: %v\n", err)
		return exitFailed
	case !ok:
		return exitFailed
	}
	return exitOK
}

// play runs what the flags ask for, and reports whether everything held that
// must hold. With -json people read stderr, and the last line of stdout is for
// programs.
func play(ctx context.Context, cfg config, stdout, stderr io.Writer) (ok bool, err error) {
	con := newConsole(stdout)
	if cfg.json {
		con = newConsole(stderr)
	}
	if cfg.record != "" {
		if err := openRecord(cfg.record); err != nil {
			return false, err
		}
	}
	var res result
	switch {
	case cfg.story:
		return tellStory(ctx, cfg, con)
	case cfg.web:
		return true, serveWeb(ctx, cfg, con, stdout)
	case cfg.record != "":
		res, err = recordSale(ctx, cfg, con)
	default:
		res, err = runSale(ctx, cfg, con)
	}
	if err != nil {
		return false, err
	}
	printReport(con, res)
	if cfg.json {
		err = json.NewEncoder(stdout).Encode(res)
	}
	return len(res.broken()) == 0, err
}

// visitorFlags are those that -h shows; -h all shows the others too.
var visitorFlags = []string{"story", "web", "mode", "stock", "requests", "instances", "redis"}

func usage(w io.Writer, all bool) {
	fmt.Fprint(w, "flashsale sells one stock through several app instances at once and counts what went wrong.\n\n"+
		"Usage: go run ./examples/flashsale [flags]\n\n")
	c := defaultConfig()
	every := newFlagSet(&c)
	shown := flag.NewFlagSet(every.Name(), flag.ContinueOnError)
	shown.SetOutput(w)
	every.VisitAll(func(f *flag.Flag) {
		if all || slices.Contains(visitorFlags, f.Name) {
			shown.Var(f.Value, f.Name, f.Usage)
		}
	})
	shown.PrintDefaults()
	if !all {
		fmt.Fprintln(w, "\n-h all lists every flag.")
	}
}

// config is one sale, as the flags or the page describe it. Its instances and
// the pages get what is exported: no address, which may have a password.
type config struct {
	setting
	Buyers int           `json:"buyers"`
	Think  time.Duration `json:"think"`
	TTL    time.Duration `json:"ttl"`
	Wait   time.Duration `json:"wait"`
	Trace  bool          `json:"trace"`
	Deaf   bool          `json:"deaf"` // no flag: see shop.Shop.Deaf

	redis  string // see parseRedis; "" is the embedded one
	otlp   string // URL; "": nowhere
	json   bool
	story  bool
	web    bool   // a live page instead of one sale
	addr   string // of the page; "": a free port
	record string // file for the page with the run frozen in it; "": none
}

// setting is what is played, which a result tells too.
type setting struct {
	Mode      shop.Mode  `json:"mode"`
	Style     shop.Style `json:"style"`
	Instances int        `json:"instances"`
	Requests  int        `json:"requests"`
	Stock     int        `json:"stock"`
}

// defaultConfig is the sale without flags. The TTL is below the wait, so that
// the crash of an instance delays buyers but turns nobody away.
func defaultConfig() config {
	return config{
		setting: setting{Mode: shop.ModeFence, Style: shop.StyleRoute, Instances: 4, Requests: 2000, Stock: 500},
		Buyers:  100, Think: 2 * time.Millisecond, TTL: 2 * time.Second, Wait: 5 * time.Second,
	}
}

// pageConfig is slow and small enough to be looked at.
func pageConfig() config {
	c := defaultConfig()
	c.Requests, c.Buyers, c.Stock, c.Think, c.Wait = 600, 24, 200, 20*time.Millisecond, 10*time.Second
	return c
}

// newFlagSet returns the flags, which change c.
func newFlagSet(c *config) *flag.FlagSet {
	fs := flag.NewFlagSet("flashsale", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar((*string)(&c.Mode), "mode", string(c.Mode),
		"none: no lock · lock: a guard on the route · fence: guard and fencing token · atomic: the step as one "+
			"script, without the price call")
	fs.StringVar((*string)(&c.Style), "style", string(c.Style),
		"where the guard stands. route: in front of the handler · wrap: guard.Wrap around the step · generated: a "+
			"decorator by guardgen · once: as wrap, inside guard.Once, and each tenth order is sent twice")
	fs.StringVar(&c.redis, "redis", c.redis, "Redis to use, as `URL or host:port`, also "+
		"redis+sentinel://host:port,host:port/master and redis+cluster://host:port,host:port; without it one runs "+
		"embedded, in this process")
	fs.IntVar(&c.Instances, "instances", c.Instances, "app instances, each a process")
	fs.IntVar(&c.Requests, "requests", c.Requests, "requests in all, round robin over the instances")
	fs.IntVar(&c.Buyers, "concurrency", c.Buyers, "buyers that send them, each one at a time")
	fs.IntVar(&c.Stock, "stock", c.Stock, "items for sale")
	fs.DurationVar(&c.Think, "think", c.Think, "latency of the price service")
	fs.DurationVar(&c.TTL, "ttl", c.TTL, "TTL of a lease: how long a crashed holder blocks the others")
	fs.DurationVar(&c.Wait, "wait", c.Wait, "how long a request waits for the key before it is refused")
	fs.BoolVar(&c.json, "json", c.json, "print the result as JSON in the last line of stdout, everything "+
		"else to stderr")
	fs.BoolVar(&c.story, "story", c.story, "play five short acts with a timeline instead of one sale; goes "+
		"with -redis only")
	fs.BoolVar(&c.Trace, "trace", c.Trace, "follow the buyer who waited longest behind another instance, as a "+
		"waterfall of spans")
	fs.BoolFunc("web", "show it live in a browser, at a free port or at the host:port behind it, of this machine",
		func(value string) error {
			if c.web = value != "false"; value != "true" && value != "false" {
				c.addr = value
			}
			return nil
		})
	fs.StringVar(&c.record, "record", c.record,
		"write the page with the sale frozen in it to this `file`.html, to be looked at later")
	fs.StringVar(&c.otlp, "otlp", c.otlp, "send spans and metrics to the OpenTelemetry collector at this `URL`, such "+
		"as http://localhost:4318")
	return fs
}

// parseFlags reads and checks the command line. Its errors name the flag and
// what is wanted.
func parseFlags(args []string) (c config, err error) {
	c = defaultConfig()
	fs, err := c.parse(args)
	if err == nil && c.onPage() {
		c = pageConfig()
		fs, err = c.parse(args)
	}
	if err != nil {
		return c, err
	}
	fs.Visit(func(f *flag.Flag) {
		if c.story && f.Name != "story" && f.Name != "redis" {
			err = fmt.Errorf("-story sets the scene of its acts itself: leave out -%s", f.Name)
		}
	})
	return c, errors.Join(err, c.check())
}

// parse reads the command line over what c has.
func (c *config) parse(args []string) (*flag.FlagSet, error) {
	fs := newFlagSet(c)
	err := fs.Parse(args)
	if err == nil && c.web && fs.NArg() > 0 { // -web stands alone, or has an address behind it
		c.addr = fs.Arg(0)
		err = fs.Parse(fs.Args()[1:])
	}
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return fs, err
}

// onPage says that a page shows the sale, live or frozen.
func (c config) onPage() bool { return c.web || c.record != "" }

// Limits of a sale on the page, which draws every request.
const (
	maxStock    = 5000
	maxBuyers   = 200
	maxRequests = 20_000
	maxThink    = 2 * time.Second
)

// check returns what is wrong with a sale, each with the name of its flag.
func (c config) check() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(slices.Contains(shop.Modes, c.Mode), "-mode is %q, want none, lock, fence or atomic", c.Mode)
	want(slices.Contains(shop.Styles, c.Style), "-style is %q, want route, wrap, generated or once", c.Style)
	want(c.Style == shop.StyleRoute || c.Mode.Locked(), "-style %s needs a guard: -mode lock or fence", c.Style)
	want(c.Instances >= 1 && c.Instances <= 64, "-instances is %d, want 1 to 64", c.Instances)
	want(c.Requests >= 1, "-requests is %d, want at least 1", c.Requests)
	want(c.Buyers >= 1, "-concurrency is %d, want at least 1", c.Buyers)
	want(c.Stock >= 0, "-stock is %d, want 0 or more", c.Stock)
	want(c.Think >= 0, "-think is %v, want 0 or more", c.Think)
	want(c.TTL >= 100*time.Millisecond && c.TTL%time.Millisecond == 0,
		"-ttl is %v, want at least 100ms in whole milliseconds", c.TTL)
	want(c.Wait >= 0, "-wait is %v, want 0 or more", c.Wait)
	want(!c.Trace || c.Mode.Locked(), "-trace follows a buyer who waits for the lock: use -mode lock or fence")
	if c.redis != "" {
		_, err := parseRedis(c.redis)
		want(err == nil, "-redis: %v", err)
	}
	if c.otlp != "" {
		u, err := url.Parse(c.otlp)
		want(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
			"-otlp is %q, want an http or https URL", c.otlp)
	}
	if c.onPage() {
		_, err := loopbackAddr(c.addr)
		want(err == nil, "%w", err)
		want(!c.Trace, "-trace follows one sale: leave out -web and -record")
		want(c.Stock <= maxStock, "-stock is %d, want at most %d for the page", c.Stock, maxStock)
		want(c.Buyers <= maxBuyers, "-concurrency is %d, want at most %d buyers for the page", c.Buyers, maxBuyers)
		want(c.Requests <= maxRequests, "-requests is %d, want at most %d for the page", c.Requests, maxRequests)
		want(c.Think <= maxThink, "-think is %v, want at most %v for the page", c.Think, maxThink)
		want(c.Instances <= maxAlive, "-instances is %d, want at most %d for the page", c.Instances, maxAlive)
	}
	return errors.Join(errs...)
}
