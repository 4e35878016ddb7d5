// Package show plays the flash sale: it starts the instances and the buyers,
// counts what came of it, and tells it on a console or a page. Package shop has
// what an instance sells by.
//
// Where to look:
//
//   - main.go: the command and its flags
//   - sale.go: one sale, its buyers and its price service
//   - ledger.go: what is known about each request
//   - instance.go: the processes
//   - store.go: Redis, and the book in it
//   - console.go, texts.go: what people read
//   - story.go: the five acts
//   - web.go, stage.go: the page
//   - trace.go: what spans tell
package show

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
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
	complain := func(err error) { fmt.Fprintf(stderr, "flashsale: %s\n", textOf(err).in(cfg.lang)) }
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(stdout, cfg.lang, args[len(args)-1] == "all")
		return exitOK
	case err != nil:
		complain(err)
		complain(say("error.help"))
		return exitUsage
	}

	// The first signal ends the run in good order, a second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	ok, err := play(ctx, cfg, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		complain(say("error.interrupted"))
		if errors.Is(err, errLeft) { // else err is the interruption itself
			complain(err)
		}
		return exitInterrupted
	case err != nil:
		complain(err)
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
	con := newConsole(stdout, cfg.lang)
	if cfg.json {
		con = newConsole(stderr, cfg.lang)
	}
	if cfg.record != "" { // before anything is played
		f, err := os.OpenFile(cfg.record, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return false, fmt.Errorf("-record: %w", err)
		}
		f.Close()
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
var visitorFlags = []string{"story", "web", "mode", "stock", "requests", "instances", "redis", "lang"}

func usage(w io.Writer, lang string, all bool) {
	fmt.Fprint(w, say("help").in(lang))
	c := defaultConfig()
	every := newFlagSet(&c)
	shown := flag.NewFlagSet(every.Name(), flag.ContinueOnError)
	shown.SetOutput(w)
	every.VisitAll(func(f *flag.Flag) {
		if all || slices.Contains(visitorFlags, f.Name) {
			shown.Var(f.Value, f.Name, say("flag."+f.Name).in(lang))
		}
	})
	shown.PrintDefaults()
	if !all {
		fmt.Fprint(w, say("help.all").in(lang))
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
	lang   string // of the console and the page; "": English, and the browser's
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

// newFlagSet returns the flags, which change c. What they are for is in the
// languages.
func newFlagSet(c *config) *flag.FlagSet {
	fs := flag.NewFlagSet("flashsale", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar((*string)(&c.Mode), "mode", string(c.Mode), "")
	fs.StringVar((*string)(&c.Style), "style", string(c.Style), "")
	fs.StringVar(&c.redis, "redis", c.redis, "")
	fs.IntVar(&c.Instances, "instances", c.Instances, "")
	fs.IntVar(&c.Requests, "requests", c.Requests, "")
	fs.IntVar(&c.Buyers, "concurrency", c.Buyers, "")
	fs.IntVar(&c.Stock, "stock", c.Stock, "")
	fs.DurationVar(&c.Think, "think", c.Think, "")
	fs.DurationVar(&c.TTL, "ttl", c.TTL, "")
	fs.DurationVar(&c.Wait, "wait", c.Wait, "")
	fs.BoolVar(&c.json, "json", c.json, "")
	fs.BoolVar(&c.story, "story", c.story, "")
	fs.BoolVar(&c.Trace, "trace", c.Trace, "")
	fs.BoolFunc("web", "", func(value string) error {
		if c.web = value != "false"; value != "true" && value != "false" {
			c.addr = value
		}
		return nil
	})
	fs.StringVar(&c.record, "record", c.record, "")
	fs.StringVar(&c.otlp, "otlp", c.otlp, "")
	fs.StringVar(&c.lang, "lang", c.lang, "")
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
		if c.story && !slices.Contains([]string{"story", "redis", "lang"}, f.Name) {
			err = say("error.storyflag", "flag", f.Name)
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

// check returns what is wrong with a sale, each with the name of its flag. A
// page draws every request, so there are limits to it.
func (c config) check() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.lang == "" || languages[c.lang] != nil, "-lang is %q, want en or zh", c.lang)
	want(slices.Contains(shop.Modes, c.Mode), "-mode is %q, want none, lock, fence or atomic", c.Mode)
	want(slices.Contains(shop.Styles, c.Style), "-style is %q, want route, wrap, generated or once", c.Style)
	want(c.Style == shop.StyleRoute || c.Mode.Locked(), "-style %s needs a guard: -mode lock or fence", c.Style)
	for _, n := range []struct {
		flag                string
		is, least           int
		most, mostOnThePage int
	}{
		{"instances", c.Instances, 1, 64, maxAlive},
		{"requests", c.Requests, 1, math.MaxInt32, 20_000},
		{"concurrency", c.Buyers, 1, math.MaxInt32, 200},
		{"stock", c.Stock, 0, math.MaxInt32, 5000},
	} {
		if c.onPage() {
			n.most = n.mostOnThePage
		}
		want(n.is >= n.least, "-%s is %d, want at least %d", n.flag, n.is, n.least)
		want(n.is <= n.most, "-%s is %d, want at most %d", n.flag, n.is, n.most)
	}
	want(c.Think >= 0 && (c.Think <= 2*time.Second || !c.onPage()), "-think is %v, want 0 or more, and at most 2s for "+
		"the page", c.Think)
	want(c.TTL >= 100*time.Millisecond && c.TTL%time.Millisecond == 0,
		"-ttl is %v, want at least 100ms in whole milliseconds", c.TTL)
	want(c.Wait >= 0, "-wait is %v, want 0 or more", c.Wait)
	want(!c.Trace || c.Mode.Locked(), "-trace follows a buyer who waits for the lock: use -mode lock or fence")
	want(!c.Trace || !c.onPage(), "-trace follows one sale: leave out -web and -record")
	if c.redis != "" {
		_, err := parseRedis(c.redis)
		want(err == nil, "-redis: %v", err)
	}
	if c.otlp != "" {
		u, err := url.Parse(c.otlp)
		want(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
			"-otlp is %q, want an http or https URL", c.otlp)
		want(Exporters != nil,
			"-otlp needs a build with the exporters: go run -tags otlp ./examples/flashsale -otlp %s", c.otlp)
	}
	_, err := loopbackAddr(c.addr)
	want(err == nil, "%w", err)
	return errors.Join(errs...)
}
