package show

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	usualColumns = 120 // where nobody says how wide it is
	fewColumns   = 60  // below, lanes are too coarse to tell one step from the next
)

// console is where people read: colors and a moving bar only on a terminal, and
// no line wider than it.
type console struct {
	w     io.Writer
	tty   bool
	color bool
	width int // in columns
}

func newConsole(w io.Writer) *console {
	f, ok := w.(*os.File)
	tty := ok && term.IsTerminal(int(f.Fd()))
	c := &console{w: w, tty: tty, color: tty && os.Getenv("NO_COLOR") == "" &&
		os.Getenv("TERM") != "dumb", width: usualColumns}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		c.width = columns
	} else if tty {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			c.width = columns
		}
	}
	return c
}

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
		c.printf("%s\n", c.paint(yellow, fmt.Sprintf("%d columns are few: one mark stands for much here. From %d on "+
			"the lanes show more.",
			c.width, fewColumns)))
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// columns returns how wide a text is on the terminal.
func columns(s string) int { return utf8.RuneCountInString(escapes.ReplaceAllString(s, "")) }

// fit wraps a line at its spaces. A word that is too wide by itself stays
// whole.
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
	for word := range strings.SplitAfterSeq(text, " ") {
		if n := columns(strings.TrimRight(word, " ")); used+n > width && used > hang {
			b.WriteString("\n" + strings.Repeat(" ", hang))
			used = hang
		}
		b.WriteString(word)
		used += columns(word)
	}
	return trimmed(b.String()) + line[len(text):]
}

// trimmed takes the spaces off the ends of lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
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
	if !c.color || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// paintLane colors the marks of a timeline.
func (c *console) paintLane(lane []byte) string {
	colors := map[byte]string{markInStep: green, markSold: green, markSoldOut: dim, markHalted: yellow, markLate: red}
	var b strings.Builder
	for _, mark := range lane {
		if color, ok := colors[mark]; ok {
			b.WriteString(c.paint(color, string(mark)))
		} else {
			b.WriteByte(mark)
		}
	}
	return b.String()
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
	every, show := time.Second, func() {
		n := s.ledger.counts()
		con.printf("  %4.1f s  \t%s of %s requests answered, %s of %s sold\n", time.Since(s.ledger.began).Seconds(),
			thousands(n.Answered), thousands(s.cfg.Requests), thousands(n.Sold), thousands(s.cfg.Stock))
	}
	if con.tty {
		defer con.printf("\n")
		every, show = 50*time.Millisecond, func() {
			n := s.ledger.counts()
			con.bar(n.Answered, s.cfg.Requests, n.Sold, s.cfg.Stock)
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ; ctx.Err() == nil; show() {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Widths of the bar itself.
const (
	mostBar  = 40
	leastBar = 10
)

// bar draws, over the last one, how many requests have been answered. The
// number of sold items stands beside it, under a name of its own.
func (c *console) bar(done, requests, sold, stock int) {
	text := fmt.Sprintf(" %3d%% (%d/%d) requests answered, %s of %s sold", 100*done/requests, done, requests,
		thousands(sold), thousands(stock))
	if c.width-columns(text)-2 < leastBar {
		text = fmt.Sprintf(" %3d%% answered, %s sold", 100*done/requests, thousands(sold))
	}
	width := max(1, min(mostBar, c.width-columns(text)-2))
	full := width * done / requests
	_, _ = io.WriteString(c.w, "\r|"+c.paint(green, strings.Repeat("█", full))+strings.Repeat(" ", width-full)+"|"+text)
}
