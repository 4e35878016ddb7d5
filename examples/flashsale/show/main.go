// Package show plays the flash sale: it starts the instances and the buyers,
// counts what came of it, and tells it on a console or a page. Package shop has
// what an instance sells by.
//
// Where to look:
//
//   - main.go: the command and its flags
//   - sale.go, buyers.go: one sale
//   - fleet.go, instance.go: the processes
//   - store.go: where stock and orders are kept
//   - console.go, report.go: what people read
//   - story.go: the five acts
//   - web.go, stage.go, show.go: the page
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
	"strings"
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
	if cfg.record != "" {
		if err := openRecord(cfg.record); err != nil {
			return false, err
		}
	}
	if cfg.story {
		return tellStory(ctx, cfg, newConsole(stdout))
	}
	con := newConsole(stdout)
	if cfg.json {
		con = newConsole(stderr)
	}
	if cfg.web {
		return true, serveWeb(ctx, cfg, con, stdout)
	}
	perform := runSale
	if cfg.record != "" {
		perform = recordSale
	}
	res, err := perform(ctx, cfg, con)
	if err != nil {
		return false, err
	}
	printReport(con, res)
	if cfg.json {
		if err := json.NewEncoder(stdout).Encode(res); err != nil {
			return false, err
		}
	}
	return len(res.broken()) == 0, nil
}

// visitorFlags are those that -h shows; -h all shows the others too.
var visitorFlags = []string{"web", "mode", "stock", "requests", "instances", "redis"}

func usage(w io.Writer, all bool) {
	fmt.Fprintln(w, strings.TrimSpace(`
flashsale sells one stock through several app instances at once and counts what went wrong.

Usage: go run ./examples/flashsale [flags]
`)+"\n")
	every := newFlagSet(new(config))
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

// webFlag is -web, with an address or without one.
type webFlag struct{ c *config }

// IsBoolFlag lets the flag stand alone.
func (webFlag) IsBoolFlag() bool { return true }

func (webFlag) String() string { return "" }

func (f webFlag) Set(s string) error {
	f.c.web, f.c.addr = s != "false", ""
	if s != "true" && s != "false" {
		f.c.addr = s
	}
	return nil
}

// joinWeb makes "-web addr" one argument: a flag that can stand alone takes no
// second one.
func joinWeb(args []string) []string {
	args = slices.Clone(args)
	for i := 0; i+1 < len(args); i++ {
		if name := strings.TrimLeft(args[i], "-"); name == "web" && args[i] != name &&
			!strings.HasPrefix(args[i+1], "-") {
			args[i] += "=" + args[i+1]
			args = slices.Delete(args, i+1, i+2)
		}
	}
	return args
}

// calm makes what the command line leaves open slow and small enough to be
// looked at.
func (c *config) calm(fs *flag.FlagSet) {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	unless := func(name string, set func()) {
		if !given[name] {
			set()
		}
	}
	unless("stock", func() { c.stock = 200 })
	unless("requests", func() { c.requests = 600 })
	unless("concurrency", func() { c.concurrency = 24 })
	unless("think", func() { c.think = 20 * time.Millisecond })
	unless("wait", func() { c.wait = 10 * time.Second })
}
