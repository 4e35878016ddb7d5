package show

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

// rewrite has the recording written anew, with the run that is in it.
var rewrite = flag.Bool("update", false, "write recording.html anew")

func TestTheRecordingIsOfThePageAsItIs(t *testing.T) {
	const name, limit = "../recording.html", 500_000
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)id="frozen">(.*?)</script>`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no run in it")
	}
	var messages []json.RawMessage
	if err := json.Unmarshal(m[1], &messages); err != nil {
		t.Fatal(err)
	}
	var last update
	if err := json.Unmarshal(messages[len(messages)-1], &last); err != nil || last.Result == nil ||
		last.Result.LateWrites != 1 || len(last.Missed) > 0 {
		t.Errorf("%v, %+v: want act 4, as it is told", err, last.Result)
	}
	var want bytes.Buffer
	if err := recordTo(&want, messages); err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(name, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(text, want.Bytes()) {
		t.Error("the page has changed: go test ./flashsale/show -run TestTheRecording -update")
	}
	if want.Len() > limit {
		t.Errorf("%d bytes, want at most %d", want.Len(), limit)
	}
}

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
