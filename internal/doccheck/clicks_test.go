package doccheck

import (
	"path"
	"strings"
	"testing"
)

// A newcomer follows the links of a page, then those of the next one.

// questions lists what a newcomer looks for, and the page with the answer.
var questions = map[string]string{
	"a double submit refused for 5 s":       "docs/recipes/double-submit.md",
	"an envelope of their house":            "docs/recipes/envelope.md",
	"a job that runs once over three":       "docs/recipes/scheduled-jobs.md",
	"what happens when Redis is down":       "docs/operations.md",
	"how to migrate from SETNX":             "docs/migrating.md",
	"what a code in an answer means":        "docs/errors.md",
	"how a lease is renewed":                "docs/how-it-works.md",
	"which spans and metrics a guard gives": "tracing/README.md",
}

const maxClicks = 3

func TestEachQuestionIsThreeClicksFromTheReadme(t *testing.T) {
	pages := load(t)
	for _, from := range []string{"README.md", "README.zh-CN.md"} {
		chineseOnly := strings.HasSuffix(from, Translation)
		found := clicks(pages, from, chineseOnly)
		for question, answer := range questions {
			if chineseOnly {
				answer = chinese(answer)
			}
			if n, ok := found[answer]; !ok || n > maxClicks {
				t.Errorf("%s: %s: %s is %d clicks away", from, question, answer, n)
			}
		}
	}
}

func TestAPageThatNobodyLinksToIsFound(t *testing.T) {
	pages := map[string]*Page{
		"README.zh-CN.md": Parse("README.zh-CN.md", "# Title\n[x](a.md) and [y](a.zh-CN.md)\n"),
		"a.md":            Parse("a.md", "# Title\n[x](b.zh-CN.md)\n"),
		"a.zh-CN.md":      Parse("a.zh-CN.md", "# Title\n"),
		"b.zh-CN.md":      Parse("b.zh-CN.md", "# Title\n"),
	}
	found := clicks(pages, "README.zh-CN.md", true)
	if _, ok := found["b.zh-CN.md"]; ok || found["a.zh-CN.md"] != 1 {
		t.Errorf("found %v", found)
	}
}

// clicks returns the number of links from one page to each page that it leads
// to. If chineseOnly is true, it goes through Chinese pages only.
func clicks(pages map[string]*Page, from string, chineseOnly bool) map[string]int {
	found := map[string]int{from: 0}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		for _, s := range pages[next[0]].Sections {
			for _, to := range s.links() {
				file, _, _ := strings.Cut(to, "#")
				file = path.Join(path.Dir(next[0]), file)
				_, seen := found[file]
				if pages[file] == nil || seen || chineseOnly && !strings.HasSuffix(file, Translation) {
					continue
				}
				found[file] = found[next[0]] + 1
				next = append(next, file)
			}
		}
	}
	return found
}
