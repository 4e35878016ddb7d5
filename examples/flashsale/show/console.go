package show

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

const (
	usualColumns = 120 // where nobody says how wide it is
	fewColumns   = 60  // below, lanes are too coarse to tell one step from the next
)

// console is where people read: colors and a moving bar only on a terminal, and
// no line wider than it.
type console struct {
	w     io.Writer
	lang  string
	tty   bool
	color bool
	width int // in columns
}

func newConsole(w io.Writer, lang string) *console {
	f, ok := w.(*os.File)
	c := &console{w: w, lang: lang, tty: ok && term.IsTerminal(int(f.Fd())), width: usualColumns}
	c.color = c.tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if c.tty && (err != nil || columns <= 0) {
		columns, _, err = term.GetSize(int(f.Fd()))
	}
	if err == nil && columns > 0 {
		c.width = columns
	}
	return c
}

// say returns a text, as of the function say, in the language of the console.
func (c *console) say(key string, args ...any) string { return say(key, args...).in(c.lang) }

// printf prints lines that fit the console. A tab in a line takes no room: it
// marks where the line goes on if it wraps.
func (c *console) printf(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		_, _ = io.WriteString(c.w, fit(line, c.width)) // nobody reads any longer
	}
}

// raw prints text as it is: what others wrote, and what people copy.
func (c *console) raw(format string, args ...any) { fmt.Fprintf(c.w, format, args...) }

// narrow says that lanes are too coarse here, once and before any is drawn.
func (c *console) narrow() {
	if c.width < fewColumns {
		c.printf("%s\n", c.paint(yellow, c.say("console.narrow", "columns", c.width, "few", fewColumns)))
	}
}

var (
	escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")
	wide    = regexp.MustCompile(`[\p{Han}\x{3000}-\x{303f}\x{ff00}-\x{ffef}“”]`) // as terminals draw them
	words   = regexp.MustCompile(` *(\p{Han}|[^ \p{Han}]+)[，。、；：）]* *`)
	ends    = regexp.MustCompile(` +(\n|$)`)
)

// columns returns how wide a text is on the terminal.
func columns(s string) int {
	return utf8.RuneCountInString(wide.ReplaceAllString(escapes.ReplaceAllString(s, ""), "--"))
}

// pad makes a text so many columns wide.
func pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-columns(s))) }

// fit wraps a line at its spaces, and between Chinese characters. A word that
// is too wide by itself stays whole.
func fit(line string, width int) string {
	before, after, marked := strings.Cut(line, "\t")
	line = before + after
	text := strings.TrimSuffix(line, "\n")
	if columns(text) <= width {
		return line
	}
	hang := len(text) - len(strings.TrimLeft(text, " "))
	if marked {
		hang += 2
	}
	if mark := columns(before); marked && width-mark >= fewColumns/3 {
		hang = mark
	}
	var b strings.Builder
	used := 0
	for _, word := range words.FindAllString(text, -1) {
		if n := columns(strings.TrimRight(word, " ")); used+n > width && used > hang {
			b.WriteString("\n" + strings.Repeat(" ", hang))
			used = hang
		}
		b.WriteString(word)
		used += columns(word)
	}
	return ends.ReplaceAllString(b.String(), "$1") + line[len(text):]
}

// Colors, as ANSI codes.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (c *console) paint(color, s string) string {
	if !c.color || color == "" || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// thousands writes n with separators.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// watch shows how the sale gets on, until ctx ends: a bar on a terminal, else a
// line each second. The end is shown too.
func (s *sale) watch(ctx context.Context, con *console) {
	every, show := time.Second, con.progress
	if con.tty {
		every, show = 50*time.Millisecond, con.bar
		defer con.printf("\n")
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		show(s.cfg, s.ledger.counts(), time.Since(s.ledger.began))
	}
}

// progress prints how many requests have been answered, and what was sold.
func (c *console) progress(cfg config, n counts, at time.Duration) {
	c.printf("  %4.1f s  \t%s\n", at.Seconds(), c.say("progress", "done", thousands(n.Answered),
		"requests", thousands(cfg.Requests), "sold", thousands(n.Sold), "stock", thousands(cfg.Stock)))
}

// Widths of the bar itself.
const (
	mostBar  = 40
	leastBar = 10
)

// bar is progress with a bar, over the last one.
func (c *console) bar(cfg config, n counts, _ time.Duration) {
	percent := fmt.Sprintf(" %3d%% ", 100*n.Answered/cfg.Requests)
	text := percent + c.say("progress.bar", "done", n.Answered, "requests", cfg.Requests,
		"sold", thousands(n.Sold), "stock", thousands(cfg.Stock))
	if c.width-columns(text)-2 < leastBar {
		text = percent + c.say("progress.short", "sold", thousands(n.Sold))
	}
	width := max(1, min(mostBar, c.width-columns(text)-2))
	full := width * n.Answered / cfg.Requests
	c.raw("\r|%s%s|%s", c.paint(green, strings.Repeat("█", full)), strings.Repeat(" ", width-full), text)
}

// result is what a sale came to, and the JSON object of -json.
type result struct {
	setting
	Redis         string `json:"redis"`
	EmbeddedRedis bool   `json:"embedded_redis"` // then the rates are not a measurement
	replicated    bool   // a failover may take back what a page has shown
	counts
	Seconds float64 `json:"seconds"`
	RPS     float64 `json:"rps"`
	quantiles
	reach
	twice
	views
}

// broken returns the faults of a sale under a lock. Without one nothing is
// promised.
func (r result) broken() []text {
	if !r.Mode.Locked() {
		return nil
	}
	return r.faults()
}

// faults names what must hold if instances keep out of each other's way, and
// did not.
func (r result) faults() (faults []text) {
	fault := func(is bool, key string, args ...any) {
		if is {
			faults = append(faults, say(key, args...))
		}
	}
	fault(r.Reached == 0, "broken.reached")
	fault(r.Reached > 0 && r.Failed == r.Reached, "broken.failed")
	fault(r.Sold != r.due(), "broken.sold", "sold", r.Sold, "due", r.due())
	fault(r.Orders != r.Sold, "broken.orders", "orders", r.Orders, "sold", r.Sold)
	fault(r.Oversold != 0, "broken.oversold", "oversold", r.Oversold)
	fault(r.OrderedTwice != 0 || r.Contradicted != 0, "broken.twice", "twice", r.OrderedTwice, "both", r.Contradicted)
	fault(r.LostUpdates != 0, "broken.lost", "lost", r.LostUpdates)
	fault(r.OddViews != 0 && !r.replicated, "broken.views", "views", r.OddViews)
	return faults
}

// due is how many must have been sold: who was told of an error, as when Redis
// failed over, has bought nothing.
func (r result) due() int { return min(r.Stock, r.Reached-r.Failed) }

// printScene says who is there, so that one of them can be killed.
func printScene(con *console, s *sale) {
	con.printf("%s  \t%s\n", con.paint(bold, con.say("scene.title")), con.say("scene", "mode", s.cfg.Mode,
		"style", s.cfg.Style, "redis", s.store.name, "buyers", s.cfg.Buyers, "requests", thousands(s.cfg.Requests),
		"stock", thousands(s.cfg.Stock)))
	for _, in := range s.fleet {
		con.printf("  %-7s%s  pid %d\n", in.name, in.url, in.pid())
	}
}

// printLogs shows who died and what the instances logged last, for a sale that
// went wrong.
func printLogs(con *console, fleet []*instance) {
	for _, in := range fleet {
		if in.lost {
			con.printf("  %s\n", con.say("report.died", "name", in.name, "state", in.cmd.ProcessState))
		}
		if log := strings.ReplaceAll(strings.TrimSpace(string(in.log)), "\n", "\n    "); log != "" {
			con.raw("  %s\n    %s\n", con.say("report.logged", "name", in.name), log)
		}
	}
}

func printReport(con *console, r result) {
	row := func(key string, n int, color string, args ...any) {
		figure := con.paint(color, fmt.Sprintf("%8s", thousands(n)))
		note := con.paint(dim, con.say("report."+key+".note", args...))
		con.printf("  %s %s   \t%s\n", pad(con.say("report."+key), 14), figure, note)
	}
	count := func(key string, n int, bad bool, args ...any) {
		row(key, n, map[bool]string{true: red, false: green}[bad], args...)
	}
	settled := ""
	if r.settled > 0 {
		settled = con.say("report.settled", "settled", r.settled)
	}
	con.printf("\n")
	row("requests", r.Requests, "", "seconds", fmt.Sprintf("%.2f", r.Seconds), "rps", fmt.Sprintf("%.0f", r.RPS),
		"caveat", con.caveat(r))
	row("stock", r.Stock, "")
	count("sold", r.Sold, r.Sold != r.due(), "orders", thousands(r.Orders), "settled", settled)
	row("refused", r.Refused, "", "reasons", r.reasons())
	count("errors", r.Errors, r.Errors > 0, "complaint", r.complaint)
	con.printf("\n")
	count("oversold", r.Oversold, r.Oversold > 0)
	count("lost", r.LostUpdates, r.LostUpdates != 0)
	count("late", r.LateWrites, false)
	if r.SentTwice > 0 {
		count("twice", r.OrderedTwice, r.OrderedTwice > 0, "sent", thousands(r.SentTwice), "both", r.Contradicted)
	}
	if r.Views > 0 {
		count("views", r.OddViews, r.OddViews > 0, "views", thousands(r.Views))
	}
	con.printf("\n")
	if r.Mode.Locked() {
		note := ""
		if r.RefusedByReason[shop.CodeSoldOut] > 0 { // later buyers found nothing to buy
			note = con.say("report.hold.note")
		}
		con.printf("  %s \tp50 %8.1f ms   p99 %8.1f ms\n", pad(con.say("report.wait"), 14), r.WaitP50, r.WaitP99)
		con.printf("  %s \tp50 %8.1f ms   p99 %8.1f ms   %s\n\n", pad(con.say("report.hold"), 14), r.HoldP50, r.HoldP99,
			con.paint(dim, note))
	}
	con.printf("%s\n", con.verdict(r))
}

// caveat belongs to every rate on the embedded Redis.
func (c *console) caveat(r result) string {
	if r.EmbeddedRedis {
		return c.say("report.caveat")
	}
	return ""
}

// reasons lists why buyers were refused, the most frequent reason first.
func (r result) reasons() string {
	var parts []string
	for _, code := range slices.SortedFunc(maps.Keys(r.RefusedByReason), func(a, b string) int {
		return r.RefusedByReason[b] - r.RefusedByReason[a]
	}) {
		parts = append(parts, code+" "+thousands(r.RefusedByReason[code]))
	}
	return strings.Join(parts, ", ")
}

func (c *console) verdict(r result) string {
	faults := r.broken()
	switch {
	case len(faults) > 0:
		var all []string
		for _, f := range faults {
			all = append(all, f.in(c.lang))
		}
		return c.paint(red, c.say("verdict.fail")) + "  " + strings.Join(all, ", ")
	case r.Mode.Locked():
		return c.paint(green, c.say("verdict.ok")) + "  " + c.say("verdict.right")
	case r.Mode == shop.ModeAtomic:
		return c.say("verdict.atomic")
	case r.Oversold > 0 || r.LostUpdates > 0:
		return c.paint(red, c.say("verdict.harm")) + " " + c.say("verdict.try")
	}
	return c.say("verdict.luck")
}
