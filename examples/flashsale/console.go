package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// console is where people read: colors and a moving bar only on a terminal.
type console struct {
	w     io.Writer
	tty   bool
	color bool
}

func newConsole(w io.Writer) *console {
	f, ok := w.(*os.File)
	tty := ok && term.IsTerminal(int(f.Fd()))
	return &console{w: w, tty: tty, color: tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (c *console) printf(format string, args ...any) { fmt.Fprintf(c.w, format, args...) }

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
