package guard

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// The documents state defaults and limits. This test compares them with the
// code. An author that changes a value is told every place that states it.

// facts are the values as documents write them, taken from the code.
func facts() map[string]string {
	const long = 1 << 20 * time.Second
	percent := func(part time.Duration) string { return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(long)) }
	share := func(part, whole time.Duration) string { return strconv.Itoa(int((whole + part/2) / part)) }
	drift := func(length time.Duration) time.Duration {
		return length - limits.Trusted(length) - limits.StopMargin(length)
	}
	offer := (&locker.Claim{TTL: long}).ShortOffer()
	c := defaults().set
	return map[string]string{
		"result": strconv.Itoa(defaultResultLimit>>10) + " KiB",
		"ttl":    written(c.TTL), "wait": written(c.MaxWait), "waiters": thousands(c.MaxWaiters),
		"等":       strings.ReplaceAll(written(c.MaxWait), "s", "秒"),
		"hold":    written(c.MaxHold),
		"initial": written(c.Backoff.Initial), "max": written(c.Backoff.Max),
		"least look": strconv.Itoa(int(c.Backoff.Max / 2 / time.Millisecond)),
		"most look":  written(locker.LookEvery), "min ttl": written(minTTL),
		"max ttl": strconv.Itoa(int(maxTTL / 24 / time.Hour)),
		"try":     share(limits.Try(time.Second), time.Second), "most try": written(limits.Try(long)),
		"most trip":    written(limits.Try(long) * 9 / 10), // what redislocker's Check lets pass
		"release":      share(limits.Release(time.Second), time.Second),
		"most release": written(limits.Release(long)),
		"drift":        percent(drift(long)), "least drift": written(drift(time.Millisecond)),
		"margin": percent(limits.StopMargin(long)), "least margin": written(limits.StopMargin(time.Millisecond)),
		"left": map[string]string{
			"4": "a quarter", "3": "a third",
			"5": "a fifth",
		}[share(limits.Remaining(long), long)],
		"剩":     map[string]string{"4": "四分之一", "3": "三分之一", "5": "五分之一"}[share(limits.Remaining(long), long)],
		"turns": strconv.Itoa(limits.TenureTurns), "tenure": written(limits.TenureTime), "offer": written(offer),
		"half hold": written(c.MaxHold / 2), "third": fmt.Sprintf("%.1f s", (c.TTL / 3).Seconds()),
		"key": strconv.Itoa(maxKey>>10) + " KiB", "block": strconv.Itoa(locker.FenceBlock),
	}
}

func written(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.Itoa(int(d/time.Second)) + " s"
	}
	return strconv.Itoa(int(d/time.Millisecond)) + " ms"
}

// inWords returns the seconds of d as texts spell them.
func inWords(d time.Duration) string {
	words := map[time.Duration]string{3 * time.Second: "three", 10 * time.Second: "ten", time.Minute: "sixty"}
	if w := words[d]; w != "" {
		return w
	}
	return strconv.Itoa(int(d / time.Second))
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// statements lists the sentences of each file that state facts.
var statements = map[string][]string{
	"options.go": {
		"{min ttl} to {max ttl} days, in whole milliseconds, unless", "Default {ttl}: after",
		"0 makes one attempt. Default {wait}.",
		"0 means no limit. Default {waiters}.",
		"0 means no limit. Default {hold}.",
		"Default {initial} and {max}.", "Default {result}.",
	},
	"doc.go": {
		"({left} of the TTL, at most {most try})",
		"TTL - max({drift} of TTL, {least drift}) - max({margin} of TTL, {least margin})",
		"starts only with {left} of the TTL left",
	},
	"errors.go": {"longer than {key}"},
	"README.md": {
		"`WithTTL` {ttl}, `WithMaxWait` {wait}, `WithMaxHold` {hold}:", "a key above {key}",
	},
	"README.zh-CN.md": {
		"`WithTTL` {ttl}，`WithMaxWait` {wait}，`WithMaxHold` {hold}：", "超过 {key} 的 key",
	},
	"docs/settings.md": {
		"| `WithTTL` | {ttl}, renewed at a third; {min ttl} to {max ttl} days.",
		"| `WithMaxWait` | {wait}; 0 makes",
		"| `WithMaxWaiters` | {waiters} per key and process;",
		"| `WithMaxHold` | {hold} per turn;",
		"full jitter, {initial} to {max} |",
		"try min(TTL/{try}, {most try})", "release min({most release}, TTL/{release})",
		"409 for up to {ttl} |", "| {offer}, for all", "| a lost message | {max} |",
	},
	"docs/settings.zh-CN.md": {
		"| `WithTTL` | {ttl}，每隔三分之一 TTL 续期一次；可设 {min ttl} 到 {max ttl} 天。",
		"| `WithMaxWait` | {wait}；0 ",
		"| `WithMaxWaiters` | 每个进程每个 key {waiters} 个；",
		"| `WithMaxHold` | 每次持有最长 {hold}；",
		"（full jitter），{initial} 到 {max} |",
		"尝试 min(TTL/{try}, {most try})", "释放 min({most release}, TTL/{release})",
		"最长 {ttl} 都返回 409", "| {offer}，不论同时崩溃", "| 丢了一条消息 | {max} |",
	},
	"guardgen/README.md": {
		"the guard's, {wait} |", "the guard's, {ttl} |", "the guard's, {hold} |", "the guard's, {waiters} |",
	},
	"guardgen/README.zh-CN.md": {
		"guard 的设置，{wait} |", "guard 的设置，{ttl} |", "guard 的设置，{hold} |", "guard 的设置，{waiters} |",
	},
	"examples/flashsale/README.md":       {"a guard's default is {ttl})"},
	"examples/flashsale/README.zh-CN.md": {"guard 的默认值是 {ttl}）"},
	"docs/how-it-works.md": {
		"after {least look} to {max} by default, at most {most look} |",
		"its offer, at most {offer}.",
		"ends after {turns} turns or {tenure};",
		"TTL - max({drift} of TTL, {least drift}) - max({margin} of TTL, {least margin})",
		"begins only with {left} of the TTL left", "a block of {block} numbers",
	},
	"docs/how-it-works.zh-CN.md": {
		"默认 {least look} 到 {max} 之后，至多 {most look} |", "保留期过去，最多 {offer}",
		"最多 {turns} 个轮次或 {tenure}；", "至少还剩{剩}的 TTL", "预留 {block} 个连续的编号",
		"TTL - max({drift} of TTL, {least drift}) - max({margin} of TTL, {least margin})",
	},
	"docs/from-java.md": {
		"without a limit: {wait} unless", "`WithTTL`, {ttl} |", "ends at MaxHold, {hold} |", "cost {offer} at most",
		"`wait=`, {wait} |", "`ttl=`, {ttl} |", "loses its lease after {hold}.", "here the TTL, {ttl}, and",
	},
	"docs/from-java.zh-CN.md": {
		"不设置就是 {wait} |", "`WithTTL`，{ttl} |", "最长到 MaxHold，{hold} |", "最多耽误 {offer}，",
		"`wait=`，{wait} |", "`ttl=`，{ttl} |", "过了 {hold} 就失去租约", "这里是 TTL，{ttl}；",
	},
	"docs/operations.md": {
		"well below MaxHold ({hold}) |", "goes back up to {ttl} every", "half of MaxHold ({half hold});",
		"about a third of the TTL ({third})", "first renews, a third of the TTL ({third}).",
		"load where {wait} only keep",
		"a tenth of the TTL, or than {most trip} |", "more than a try ({most try}):",
	},
	"docs/operations.zh-CN.md": {
		"远低于 MaxHold（{hold}） |", "每隔几秒回升到 {ttl} |", "MaxHold 的一半（{half hold}）之后",
		"大约是 TTL 的三分之一（{third}）", "也就是 TTL 的三分之一（{third}）", "等满 {wait} 只会",
		"TTL 的十分之一，或者超过 {most trip} |", "一次尝试的时限（{most try}）",
	},
	"docs/migrating.md":         {"`guard.WithMaxHold` ({hold}) |", "`guard.WithMaxWait` ({wait});"},
	"docs/migrating.zh-CN.md":   {"`guard.WithMaxHold`（{hold}） |", "`guard.WithMaxWait`（{wait}）；"},
	"docs/jobs.md":              {"the TTL, {ttl} by default", "MaxHold is {hold} by default"},
	"docs/jobs.zh-CN.md":        {"空出来，默认 {ttl}。", "MaxHold 默认 {hold}。"},
	"docs/choosing.md":          {"within the TTL ({ttl}), after", "MaxWait at most, {wait} by default"},
	"docs/choosing.zh-CN.md":    {"最多一个 TTL（{ttl}）内选出", "最多等 MaxWait，默认 {wait} |"},
	"llms.txt":                  {"at most {wait} later.", "the TTL ({ttl}) or by"},
	"guardtest/doc.go":          {"waits {wait} for a key", "the TTL of {ttl}. Set", "after about {third} of virtual"},
	"guardtest/guardtest.go":    {"takes more than {wait}. release"},
	"locker/redislocker/doc.go": {"by itself every {least look} to {max} "},

	"docs/recipes/background-work.md":       {"false a TTL ({ttl}) later."},
	"docs/recipes/background-work.zh-CN.md": {"一个 TTL（{ttl}）之后"},
	"docs/from-setnx.md":                    {"TTL is {ttl} by default"},
	"docs/from-setnx.zh-CN.md":              {"TTL 默认 {ttl}"},
	"docs/recipes/scheduled-jobs.md":        {"from a TTL ({ttl}) later on"},
	"docs/recipes/scheduled-jobs.zh-CN.md":  {"最长一个 TTL（{ttl}）之后"},
	"docs/recipes/session-lock.md":          {"MaxHold ({hold}). Lock"},
	"docs/recipes/session-lock.zh-CN.md":    {"到了 MaxHold（{hold}）就会"},

	"docs/compare.md":       {"is bounded by | MaxWait, {wait} |"},
	"docs/compare.zh-CN.md": {"等待上限 | MaxWait，{等} |"},
}

// unfounded returns the statements that do not stand in the files, given the
// facts.
func unfounded(t *testing.T, facts map[string]string) []string {
	t.Helper()
	var missing []string
	for _, file := range slices.Sorted(maps.Keys(statements)) {
		text := prose(t, file)
		for _, statement := range statements[file] {
			if !strings.Contains(text, filled(statement, facts)) {
				missing = append(missing, file+": "+filled(statement, facts))
			}
		}
	}
	return missing
}

func filled(statement string, facts map[string]string) string {
	for name, value := range facts {
		statement = strings.ReplaceAll(statement, "{"+name+"}", value)
	}
	return statement
}

var (
	space   = regexp.MustCompile(`\s+`)
	comment = regexp.MustCompile(`(?m)^\s*//`)
)

var proses sync.Map // file to string; the race detector makes the expressions slow

// prose is the text of a file in one line, without the slashes of comments.
func prose(t *testing.T, file string) string {
	t.Helper()
	if text, ok := proses.Load(file); ok {
		return text.(string)
	}
	source, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	text := space.ReplaceAllString(comment.ReplaceAllString(string(source), ""), " ")
	proses.Store(file, text)
	return text
}

func TestNew_DocumentsStateTheDefaultsOfTheCode(t *testing.T) {
	for _, missing := range unfounded(t, facts()) {
		t.Errorf("not found: %s", missing)
	}
}

// The test has nothing to add where the documents are wrong already.
func TestNew_AChangedDefaultIsFoundWhereverItIsStated(t *testing.T) {
	t.Parallel()
	right := facts()
	if len(unfounded(t, right)) > 0 {
		return
	}
	for name := range right {
		stated := 0
		for _, list := range statements {
			for _, statement := range list {
				if strings.Contains(statement, "{"+name+"}") {
					stated++
				}
			}
		}
		wrong := maps.Clone(right)
		wrong[name] = "12345 s"
		if found := len(unfounded(t, wrong)); found != stated || stated == 0 {
			t.Errorf("%s is stated %d times, and %d were found", name, stated, found)
		}
	}
}

// aDefault is a value that a text calls the default, on either side of that
// word or in the next cell of a table.
var aDefault = regexp.MustCompile(
	`(?i)(default|默认)[^.;|。；]{0,30}?( \| )?\b\d[\d,]*( ms| s|[.,]( |$)| KiB| ?秒| ?毫秒)|\b\d[\d,]*( ms| s) by default`)

// aSetting returns an expression for a setting beside its default, and for a
// default in words. Texts that do not call it a default are found so.
func aSetting(c config) *regexp.Regexp {
	var forms []string
	set := c.set
	for name, d := range map[string]time.Duration{"TTL": set.TTL, "MaxWait": set.MaxWait, "MaxHold": set.MaxHold} {
		n := strconv.Itoa(int(d / time.Second))
		forms = append(forms, name+"`?[ ,，(（]{1,2}(of )?"+n+"( s| ?秒)", "(?i:\\b"+inWords(d)+" seconds)")
	}
	return regexp.MustCompile(strings.Join(forms, "|"))
}

// Every place that states a default must be listed above. Otherwise the test
// above would not look there.
func TestNew_EveryStatementOfADefaultIsListed(t *testing.T) {
	files := []string{"CONTRIBUTING.md"}
	for _, pattern := range []string{
		"*.go", "*.md", "docs/*.md", "guardgen/*.md", "tracing/*.md", "locker/*.go",
		"locker/redislocker/doc.go", "docs/recipes/*.md", "llms.txt", "guardtest/*.go", "examples/flashsale/*.md",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	setting := aSetting(defaults())
	for _, planted := range []string{
		"Default 9 s.", "by default it is 1,500 ms", "默认值是 9 s", "it is 9 s by default", "默认等待 9 秒", "| 默认等待 | 9 秒 |",
		"| Default wait | 9 s |", "MaxWait, 3 s", "MaxWait，3 秒", "the TTL (10 s)", "MaxHold of 60 s",
		"instead of three seconds",
	} {
		if !aDefault.MatchString(planted) && !setting.MatchString(planted) {
			t.Errorf("%q would not be found", planted)
		}
	}
	values := facts()
	if len(unfounded(t, values)) > 0 {
		return // the documents are wrong already, and told
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := prose(t, file)
		for _, statement := range statements[filepath.ToSlash(file)] {
			text = strings.ReplaceAll(text, filled(statement, values), "")
		}
		for _, found := range slices.Concat(aDefault.FindAllString(text, -1), setting.FindAllString(text, -1)) {
			t.Errorf("%s: %q is in no statement", file, found)
		}
	}
}
