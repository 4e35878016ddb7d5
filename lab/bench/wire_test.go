package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestCommandsAreCountedHoweverTheyAreCut(t *testing.T) {
	stream := command3("SET", "k", "*3\r\n$3\r\nSET\r\n") + command3("EVALSHA", "", "$5*1\r\n") +
		command3("SET", strings.Repeat("*", 300), "\n") + "*1\r\n$4\r\nPING\r\n"
	for size := 1; size <= len(stream); size++ {
		var r requests
		n := 0
		for at := 0; at < len(stream); at += size {
			n += r.feed([]byte(stream[at:min(at+size, len(stream))]))
		}
		if n != 4 {
			t.Fatalf("in parts of %d bytes: %d commands, want 4", size, n)
		}
	}
}

func command3(parts ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(parts))
	for _, p := range parts {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(p), p)
	}
	return b.String()
}
