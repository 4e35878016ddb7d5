package main

import (
	"fmt"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-lockguard/guard/locker"
)

// prefix begins a directive.
const prefix = "//guard:lock"

// directive is the parsed form of one comment:
//
//	//guard:lock stock:{from} + stock:{to} wait=200ms ttl=30s hold=1m minhold=5s waiters=100 name=transfer fencing norenew
type directive struct {
	keys     []keyTemplate
	name     string        // for telemetry; "" means that of the method
	once     time.Duration // how long the result is kept; 0 means that it is not
	onceAt   int           // offset of the option
	settings []option      // the others, in the order of the directive
	function string        // name of the generated function; "" means the function's name with Locked
	at       int           // offset of function
}

// option is one call of guard.With... Its value is a time.Duration, an int, or
// nil for none.
type option struct {
	setter string
	value  any
}

// options has the reader of each option, by its name. An option with a nil
// reader takes no value.
var options = map[string]struct {
	setter string
	read   func(value string) (any, string) // returns the mistake, or ""
}{
	"wait":     {"WithMaxWait", readDuration},
	"ttl":      {"WithTTL", readTTL},
	"hold":     {"WithMaxHold", readDuration},
	"minhold":  {"WithMinHold", readDuration},
	"linger":   {"WithLinger", readDuration},
	"waiters":  {"WithMaxWaiters", readCount},
	"shared":   {"WithShared", nil},
	"permits":  {"WithPermits", readPermits},
	"fencing":  {"WithFencing", nil},
	"norenew":  {"WithoutRenewal", nil},
	"failopen": {"WithFailOpen", nil},
	"once":     {"", readOnce},
	"one":      {"", nil},
	"name":     {"", readName},
	"func":     {"", readIdentifier},
}

// optionNames lists the options for people.
const optionNames = "wait=, ttl=, hold=, minhold=, linger=, waiters=, permits=, once=, name=, shared, fencing, " +
	"norenew, failopen, one and, above a function, func="

// isDirective reports whether a comment is a directive, well-formed or not. It
// ignores case, because a capital letter must not take the lock away.
func isDirective(comment string) bool {
	const start = "//guard:"
	return len(comment) >= len(start) && strings.EqualFold(comment[:len(start)], start)
}

// nearMiss returns the mistake in a comment that was meant to be a directive,
// or "". If prose is true, the comment may be prose as well. It is not prose
// above a method or function whose name is not its first word.
func nearMiss(comment string) (wrong string, prose bool) {
	words := strings.Fields(comment[2:])
	if isDirective(comment) || len(words) == 0 {
		return "", false
	}
	name, _, _ := strings.Cut(strings.TrimSuffix(words[0], "*/"), "(") // others have arguments: @Lock4j(keys = "#sku")
	spaced := !strings.HasPrefix(comment[2:], words[0])
	annotation := strings.ContainsAny(name[:min(len(name), 1)], "@+")
	switch {
	case isForeign(name) && strings.HasPrefix(comment, "//") && (!spaced || annotation):
		return fmt.Sprintf("%q is likely a misspelling of %q", "//"+name, prefix), true
	case !resembles(name) || spaced && !strings.Contains(name, ":"):
		return "", false
	case strings.HasPrefix(comment, "/*"):
		return "not a directive: write " + prefix + ", not a block comment", false
	case spaced:
		return "not a directive: write " + prefix + " without spaces before it", true
	}
	return fmt.Sprintf("unknown directive %q, want %q", "//"+name, prefix), false
}

// resembles reports whether name differs from that of a directive by at most
// two letters.
func resembles(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "：", ":") // a Chinese keyboard's colon
	return name == "go:lock" || distance(name, strings.TrimPrefix(prefix, "//")) <= 2
}

// isForeign reports whether name is the name of such a directive in other
// tools.
func isForeign(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimLeft(name, "@+")), "：", ":")
	before, after, colon := strings.Cut(name, ":")
	switch {
	case resembles(name): // it is surely meant
		return false
	case colon:
		return before == "lock" || after == "lock"
	}
	return name == "lock" || name == "locked" || name == "lock4j" || name == "guard" || name == "guarded"
}

// distance returns the number of letters that must be added, removed or
// replaced to turn a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the distance of the part of a so far to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// parseDirective reads a comment that isDirective. The caller must not use a
// directive with problems.
func parseDirective(comment string) (directive, []*problem) {
	words := fields(comment)
	if words[0].text != prefix {
		return directive{}, []*problem{problemAt(0, "unknown directive %q, want %q", words[0].text, prefix)}
	}
	var d directive
	words, problems := d.readKeys(words[1:], len(comment))
	seen := map[string]word{}
	for _, w := range words {
		if wrong := d.readOption(w, seen); wrong != nil {
			problems = append(problems, wrong)
		}
	}
	if len(problems) == 0 {
		problems = slices.Concat(d.checkOne(seen), checkBeside(seen, "shared"), checkBeside(seen, "linger"),
			d.checkLongest(seen), d.checkMinHold(seen), d.checkOnce(seen))
	}
	return d, problems
}

// checkOne checks that a key without a placeholder is intended, because it is
// one lock for all calls.
func (d *directive) checkOne(given map[string]word) (problems []*problem) {
	one, meant := given["one"]
	constant := false
	for _, k := range d.keys {
		if !k.isConstant() {
			continue
		}
		if constant = true; !meant {
			problems = append(problems, problemAt(k.at,
				"%q has no {placeholder}, so all calls would share one lock: name a parameter, or add "+
					"the option one", k.text))
		}
	}
	if meant && !constant {
		problems = append(problems, problemAt(one.at, "option one is for a key without a {placeholder}"))
	}
	return problems
}

// refused has, by option, those that guard.With would refuse beside it.
var refused = map[string][]struct{ name, why string }{
	"shared": {
		{"permits", "a key is shared by any number, or by so many"},
		{"fencing", "a shared lease has no fencing token"},
		{"minhold", "a shared lease keeps no other reader out"},
	},
	"linger": {
		{"shared", "only an exclusive key stays with its process"},
		{"permits", "only an exclusive key stays with its process"},
		{"minhold", "a key is kept from everybody, or for the next call"},
		{"norenew", "a key that lingers has a short lease first, and is renewed"},
	},
}

// checkBeside reports the options that are refused beside another.
func checkBeside(given map[string]word, option string) (problems []*problem) {
	if _, ok := given[option]; !ok {
		return nil
	}
	for _, o := range refused[option] {
		if w, ok := given[o.name]; ok {
			problems = append(problems, problemAt(w.at, "%s together with %s: %s", o.name, option, o.why))
		}
	}
	return problems
}

// checkOnce reports what guard.Once would refuse or ignore.
func (d *directive) checkOnce(given map[string]word) (problems []*problem) {
	once, ok := given["once"]
	if !ok {
		return nil
	}
	if len(d.keys) > 1 {
		problems = append(problems, problemAt(once.at, "once with several keys: a result is kept for one key"))
	}
	for _, o := range []struct{ name, why string }{
		{"minhold", "the result keeps others out by itself"},
		{"shared", "a key with a result is taken exclusively"},
		{"permits", "a key with a result is taken exclusively"},
		{"failopen", "without the store nothing runs"},
		{"linger", "the result needs the store"},
	} {
		if w, ok := given[o.name]; ok {
			problems = append(problems, problemAt(w.at, "%s together with once: %s", o.name, o.why))
		}
	}
	return problems
}

// checkLongest reports a linger that guard.With would refuse when the program
// starts.
func (d *directive) checkLongest(given map[string]word) []*problem {
	ttl, name := longestTTL(given)
	claim := locker.Claim{TTL: ttl}
	if most := claim.LongOffer() / 2; d.duration("WithLinger") > most {
		return []*problem{problemAt(given["linger"].at, "linger is longer than %v, the longest with a TTL of %s",
			most, name)}
	}
	return nil
}

// checkMinHold is checkLongest for minhold.
func (d *directive) checkMinHold(given map[string]word) []*problem {
	ttl, name := longestTTL(given)
	if _, ends := given["norenew"]; ends && d.duration("WithMinHold") > ttl {
		return []*problem{problemAt(given["minhold"].at, "minhold is longer than a key lasts with norenew: %s", name)}
	}
	return nil
}

// longestTTL returns the TTL of a directive, and the text of it. Without one,
// the guard's own TTL is not known here, and longestTTL returns the max.
func longestTTL(given map[string]word) (ttl time.Duration, name string) {
	ttl, name = maxTTL, "576h"
	if w, ok := given["ttl"]; ok {
		name = strings.TrimPrefix(w.text, "ttl=")
		ttl, _ = time.ParseDuration(name)
	}
	return ttl, name
}

// duration returns the value of an option, or 0 without it.
func (d *directive) duration(setter string) time.Duration {
	for _, o := range d.settings {
		if o.setter == setter {
			return o.value.(time.Duration)
		}
	}
	return 0
}

// readKeys reads the templates at the start of words, and returns the words
// behind them. end is the offset of the end of words.
func (d *directive) readKeys(words []word, end int) (rest []word, problems []*problem) {
	for {
		if len(words) == 0 {
			return nil, append(problems, problemAt(end, "no key template"))
		}
		first := words[0]
		if looksLikeOption(first.text) {
			return words, append(problems, problemAt(first.at, "no key template before %q", first.text))
		}
		t, wrong := parseTemplate(first.text, first.at)
		if wrong != nil {
			problems = append(problems, wrong)
		}
		d.keys = append(d.keys, t)
		if words = words[1:]; len(words) == 0 || words[0].text != "+" {
			return words, problems
		}
		words = words[1:]
	}
}

// looksLikeOption reports whether word is an option rather than a key. The
// option may be unknown.
func looksLikeOption(word string) bool {
	name, _, assigned := strings.Cut(word, "=")
	if _, known := options[name]; known {
		return true
	}
	return assigned && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) })
}

func (d *directive) readOption(w word, seen map[string]word) *problem {
	name, value, assigned := strings.Cut(w.text, "=")
	o, known := options[name]
	_, twice := seen[name]
	switch {
	case !known && strings.ContainsAny(w.text, "{:+"):
		return problemAt(w.at, "%q is not an option; several keys are joined with ' + '", w.text)
	case !known:
		return problemAt(w.at, "unknown option %q, want %s", name, optionNames)
	case twice:
		return problemAt(w.at, "option %s is given twice", name)
	case o.read == nil && assigned:
		return problemAt(w.at, "option %s takes no value", name)
	case o.read != nil && !assigned:
		return problemAt(w.at, "option %s has no value, want %s=", name, name)
	}
	seen[name] = w
	var v any
	if o.read != nil {
		var wrong string
		if v, wrong = o.read(value); wrong != "" {
			return problemAt(w.at+len(name)+1, "%s is %q, %s", name, value, wrong)
		}
	}
	switch name {
	case "one":
	case "name":
		d.name = value
	case "func":
		d.function, d.at = value, w.at
	case "once":
		d.once, _ = v.(time.Duration)
		d.onceAt = w.at
	default:
		d.settings = append(d.settings, option{o.setter, v})
	}
	return nil
}

func readDuration(value string) (any, string) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return nil, "want a duration such as 200ms or 0s"
	}
	if 0 < d && d < time.Millisecond {
		return nil, "want 0s or at least 1ms"
	}
	return d, ""
}

// readOnce reads how long guard.Once keeps a result.
func readOnce(value string) (any, string) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d%time.Millisecond != 0 {
		return nil, "want a duration of at least 1ms in whole milliseconds"
	}
	return d, ""
}

const maxTTL = 24 * 24 * time.Hour // the max of guard.WithTTL, 576h

func readTTL(value string) (any, string) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 100*time.Millisecond || d > maxTTL || d%time.Millisecond != 0 {
		return nil, "want a duration of 100ms to 576h in whole milliseconds"
	}
	return d, ""
}

func readCount(value string) (any, string) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return nil, "want a whole number, 0 or more"
	}
	return int(n), ""
}

// readPermits reads a value that guard.WithPermits accepts.
func readPermits(value string) (any, string) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 || n >= locker.NoLimit {
		return nil, fmt.Sprintf("want a whole number, 1 to %d", locker.NoLimit-1)
	}
	return int(n), ""
}

func readName(value string) (any, string) {
	if value == "" || !utf8.ValidString(value) {
		return nil, "want a word"
	}
	return value, ""
}

func readIdentifier(value string) (any, string) {
	if !token.IsIdentifier(value) || value == "_" {
		return nil, "want the name of a function"
	}
	return value, ""
}

// word is a space-separated part of a directive.
type word struct {
	text string
	at   int
}

// fields is strings.Fields with offsets.
func fields(s string) []word {
	var words []word
	start := -1
	for i, r := range s {
		switch {
		case unicode.IsSpace(r):
			if start >= 0 {
				words = append(words, word{s[start:i], start})
			}
			start = -1
		case start < 0:
			start = i
		}
	}
	if start >= 0 {
		words = append(words, word{s[start:], start})
	}
	return words
}
