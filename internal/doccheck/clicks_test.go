package doccheck

import (
	"path"
	"slices"
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

const chineseIndex = "docs/README.zh-CN.md"

// searched lists the words by which readers of Chinese articles on locks
// search.
var searched = []string{
	"续命", "续约", "羊群", "惊群", "数据库锁", "悲观锁", "分段锁", "锁误删", "GETSET", "楼层", "全局ID", "NPC", "时钟漂移",
	"守护线程", "主从延迟", "AOP", "QPS", "读写锁", "信号量", "联锁", "红锁", "选主", "ZooKeeper", "死锁", "过期时间", "原子性",
	"Lua", "UUID", "WATCH", "MULTI", "看门狗", "可重入", "公平锁", "tryLock", "发布订阅", "压测", "进程暂停", "哨兵", "集群",
	"悲观锁", "乐观锁", "秒杀", "超卖", "号段", "可靠性", "性能", "中间件", "幂等", "注解",
}

func TestEachSearchWordIsOneClickFromTheChineseIndex(t *testing.T) {
	pages := load(t)
	for _, word := range searched {
		if !leads(pages, chineseIndex, word) {
			t.Errorf("%s: %s leads to no section that has it", chineseIndex, word)
		}
	}
}

func TestASearchWordThatLeadsNowhereIsFound(t *testing.T) {
	pages := map[string]*Page{
		"README.zh-CN.md": Parse("README.zh-CN.md", "- 续命 [x](a.zh-CN.md#锁)\n- 惊群 [x](a.zh-CN.md#锁)\n- 红锁\n"),
		"a.zh-CN.md":      Parse("a.zh-CN.md", "# 惊群\n## 锁\n续 命\n"),
	}
	for word, ok := range map[string]bool{"续命": true, "惊群": false, "红锁": false, "选主": false} {
		if leads(pages, "README.zh-CN.md", word) != ok {
			t.Errorf("%s: want %t", word, ok)
		}
	}
}

// leads reports whether a page has a line with the word and a link to a section
// with the word.
func leads(pages map[string]*Page, from, word string) bool {
	for _, s := range pages[from].Sections {
		for line := range strings.Lines(s.Prose) {
			if !has(line, word) {
				continue
			}
			for _, to := range link.FindAllStringSubmatch(line, -1) {
				file, id, _ := strings.Cut(to[2], "#")
				if page := pages[path.Join(path.Dir(from), file)]; page != nil && explains(page, id, word) {
					return true
				}
			}
		}
	}
	return false
}

// explains reports whether the section of a page, or any section if id is "",
// has the word.
func explains(p *Page, id, word string) bool {
	return slices.ContainsFunc(p.Sections, func(s Section) bool {
		return (id == "" || s.Anchor == id) && has(s.Title+s.text(), word)
	})
}

// has reports whether a text has the word. Spaces do not count.
func has(text, word string) bool { return strings.Contains(strings.ReplaceAll(text, " ", ""), word) }
