package doccheck

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A comment just before a block gives the reason why nothing runs it, or names
// the test that does:
//
//	<!-- run -->
//	<!-- not run: it takes an hour -->
//	<!-- run by TestTheReadmeShowsRealMistakes in guardgen -->
//
// A block of Go without such a comment must be in a Go file, see [MissingCode].
// [Run] runs the first kind, which is shell commands that take no time and
// change nothing.

var (
	comment = regexp.MustCompile(`(?s)<!--(.*?)-->\s*$`)
	runBy   = regexp.MustCompile(`^run by (Test\w+) in (\S+)$`)
)

const (
	run    = "run" // see [Run]
	notRun = "not run:"
)

// note returns the comment that ends just before line i as one line, or "".
func note(lines []string, i int) string {
	before := strings.TrimRight(strings.Join(lines[max(0, i-6):i], "\n"), "\n ")
	at := strings.LastIndex(before, "<!--")
	if at < 0 {
		return ""
	}
	m := comment.FindStringSubmatch(before[at:])
	if m == nil {
		return ""
	}
	return strings.Join(strings.Fields(m[1]), " ")
}

// excused reports whether a comment gives the reason why nothing runs the
// block.
func (b Block) excused() bool { return strings.HasPrefix(b.Note, notRun) }

// toRun reports whether the block has shell commands that [Run] runs.
func (b Block) toRun() bool { return b.Lang == "sh" && b.Note == run }

// Unproven returns the blocks that nothing runs or compiles and that no comment
// excuses. It also returns blocks with a wrong comment, and fences that [Parse]
// does not know.
func Unproven(root string, pages []*Page) []string {
	var found []string
	for _, p := range pages {
		for _, s := range p.Sections {
			for line := range strings.Lines(s.Prose) {
				if strings.Contains(line, "```") || strings.HasPrefix(line, "~~~") {
					found = append(found, fmt.Sprintf("%s, in %q: a fence that is not understood: %s",
						p.Path, s.Title, line))
				}
			}
			for _, b := range s.Blocks {
				if problem := b.unproven(root); problem != "" {
					found = append(found, fmt.Sprintf("%s:%d: %s:\n%s", p.Path, b.Line, problem, b.Text))
				}
			}
		}
	}
	return found
}

func (b Block) unproven(root string) string {
	if why, ok := strings.CutPrefix(b.Note, notRun); ok {
		if len(strings.Fields(why)) < 2 {
			return "not run, without a reason"
		}
		return ""
	}
	if m := runBy.FindStringSubmatch(b.Note); m != nil {
		if !hasTest(filepath.Join(root, filepath.FromSlash(m[2])), m[1]) {
			return fmt.Sprintf("there is no %s in %s", m[1], m[2])
		}
		return ""
	}
	if b.Lang == "go" || b.toRun() {
		return ""
	}
	return "no test runs it, and no comment says why"
}

// hasTest reports whether a test of that name is in dir.
func hasTest(dir, name string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file that was found below the root
		if err == nil && strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// Shell returns the blocks of shell commands that must be run, by page and
// line. It leaves out translations, which have the same blocks.
func Shell(pages []*Page) map[string]Block {
	blocks := map[string]Block{}
	for _, p := range pages {
		if strings.HasSuffix(p.Path, Translation) {
			continue
		}
		for _, s := range p.Sections {
			for _, b := range s.Blocks {
				if b.toRun() {
					blocks[fmt.Sprintf("%s:%d", p.Path, b.Line)] = b
				}
			}
		}
	}
	return blocks
}

// Run runs a block of shell commands in root, at most until ctx ends. Each
// command must succeed.
func Run(ctx context.Context, root string, b Block) error {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.Text) //nolint:gosec // our own documents
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, b.Text, out)
	}
	return nil
}

// Words returns the number of words outside the fences of a text in Markdown.
func Words(text string) int {
	words, inside := 0, false
	for line := range strings.Lines(text) {
		if fence.MatchString(strings.TrimSuffix(line, "\n")) {
			inside = !inside
		} else if !inside {
			words += len(strings.Fields(line))
		}
	}
	return words
}
