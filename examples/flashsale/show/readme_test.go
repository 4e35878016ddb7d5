package show

import (
	"os"
	"strings"
	"testing"
)

func TestTheCommandsOfTheReadmeAreKnown(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for line := range strings.Lines(string(text)) {
		command, _, _ := strings.Cut(line, "#")
		if args, ok := strings.CutPrefix(command, "go run ./examples/flashsale"); ok {
			commands++
			if _, err := parseFlags(strings.Fields(args)); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
	if commands < 6 {
		t.Errorf("only %d commands found", commands)
	}
}
