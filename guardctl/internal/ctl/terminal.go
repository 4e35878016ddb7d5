package ctl

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// terminal is an output of guardctl. Keys, names and errors come from other
// programs, and so from their clients. Nothing of them may control the terminal
// of an operator: all output goes through a terminal, JSON too.
type terminal struct{ out io.Writer }

// Write writes b as escape returns it.
func (t terminal) Write(b []byte) (int, error) {
	if _, err := t.out.Write(escape(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// redraw clears the screen, which nothing that passes Write can.
func (t terminal) redraw() { _, _ = io.WriteString(t.out, "\x1b[H\x1b[2J") }

// file returns the file that t writes to, or nil if it is none.
func (t terminal) file() *os.File {
	f, _ := t.out.(*os.File)
	return f
}

// escape returns b with each character that is not printable as \u009b, and
// each byte that is not UTF-8 as \x9b. Ends of lines and tabs stay. Valid JSON
// stays so, and means the same.
func escape(b []byte) []byte {
	safe := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			safe = fmt.Appendf(safe, `\x%02x`, b[0])
		case r == '\n' || r == '\t' || strconv.IsPrint(r):
			safe = append(safe, b[:n]...)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				safe = fmt.Appendf(safe, `\u%04x`, unit)
			}
		}
		b = b[n:]
	}
	return safe
}
