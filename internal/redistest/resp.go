package redistest

import (
	"bytes"
	"strconv"
	"strings"
)

// parser finds the commands in the bytes that a client sends. They are RESP
// arrays of bulk strings in pieces of any size.
type parser struct{ rest []byte }

// feed takes the next bytes. It returns the names, in upper case, of the
// commands that are complete now.
func (p *parser) feed(b []byte) (names []string) {
	p.rest = append(p.rest, b...)
	for {
		name, length := command(p.rest)
		if length == 0 {
			return names
		}
		names = append(names, name)
		p.rest = p.rest[length:]
	}
}

// command returns the name and the length of the command at the start of b, or
// 0 if it is incomplete.
func command(b []byte) (name string, length int) {
	parts, at := number(b, 0, '*')
	for i := range parts {
		size, start := number(b, at, '$')
		if start == 0 || start+size+2 > len(b) {
			return "", 0
		}
		if i == 0 {
			name = strings.ToUpper(string(b[start : start+size]))
		}
		at = start + size + 2
	}
	return name, at
}

// number reads a line like "*3\r\n" at b[at:]. It returns the number and the
// start of the next line, or 0.
func number(b []byte, at int, kind byte) (n, next int) {
	end := bytes.Index(b[min(at, len(b)):], []byte("\r\n"))
	if end < 1 || b[at] != kind {
		return 0, 0
	}
	n, err := strconv.Atoi(string(b[at+1 : at+end]))
	if err != nil {
		return 0, 0
	}
	return n, at + end + 2
}
