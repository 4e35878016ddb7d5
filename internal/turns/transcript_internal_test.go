package turns

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The files in testdata show the protocol, one rule of order each. Begin with
// handover.txt, which explains the form. stage.do carries out the commands.
//
// go test -run Transcripts ./internal/turns -update writes the indented lines
// anew.
var update = flag.Bool("update", false, "write the transcripts as they are played")

// stores are the stores that play each transcript, with a locker for each
// process.
var stores = map[string]func(t *testing.T) func() locker.Locker{
	"memlocker": func(*testing.T) func() locker.Locker {
		first := memlocker.New()
		return func() locker.Locker { return first.Peer() }
	},
	"redislocker": func(t *testing.T) func() locker.Locker {
		t.Helper()
		_, rdb := redistest.Miniredis(t)
		return func() locker.Locker { return redislocker.New(rdb) }
	},
}

func TestTranscriptsOfTheProtocol(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for store, lockers := range stores {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+" "+store, func(t *testing.T) {
				written, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				played := play(t, lockers, string(written))
				if *update && store == "memlocker" {
					if err := os.WriteFile(file, []byte(played), 0o600); err != nil {
						t.Fatal(err)
					}
					return
				}
				if at := firstDifference(string(written), played); at > 0 {
					t.Errorf("%s differs from line %d on; this is what happened:\n%s", file, at, played)
				}
			})
		}
	}
}

// play carries out the commands of a transcript, and returns it with what
// happened.
func play(t *testing.T, lockers func(t *testing.T) func() locker.Locker, script string) (played string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, lockers(t))
		defer s.end()
		var out strings.Builder
		commands := false // since the last report
		report := func() {
			if commands {
				out.WriteString(s.report())
			}
			commands = false
		}
		for line := range strings.Lines(script) {
			line = strings.TrimRight(line, "\n")
			switch {
			case strings.HasPrefix(line, "#"):
			case line == "":
				report()
			case line[0] == ' ':
				continue // written by report
			default:
				s.do(line)
				commands = true
			}
			fmt.Fprintln(&out, line)
		}
		report()
		played = out.String()
	})
	return played
}

// firstDifference returns the number of the first line that differs, or 0.
func firstDifference(a, b string) int {
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(la), len(lb)) {
		if i >= len(la) || i >= len(lb) || la[i] != lb[i] {
			return i + 1
		}
	}
	return 0
}

// A transcript that says something else than what happens is found, even if
// only one word differs.
func TestAWrongTranscriptIsFound(t *testing.T) {
	const right = "A1 takes\nB1 takes\n"
	played := play(t, stores["memlocker"], right)
	if firstDifference(played, play(t, stores["memlocker"], played)) != 0 {
		t.Errorf("the same commands do not bring the same answers: %s", played)
	}
	for _, word := range []string{"A/1", "10 s", "B/1", "has its turn", "asleep"} {
		wrong := strings.Replace(played, word, "x", 1)
		if wrong == played || firstDifference(wrong, play(t, stores["memlocker"], wrong)) == 0 {
			t.Errorf("a wrong %q is not found in: %s", word, played)
		}
	}
}

// seconds rounds d up, because looks come at random times.
func seconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
