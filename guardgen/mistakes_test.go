package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module makes a module of the given files and returns its directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	put(t, filepath.Join(dir, "go.mod"), "module example.com/m\n\ngo 1.25.0\n")
	for name, text := range files {
		put(t, filepath.Join(dir, name), text)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	head = "package m\n\nimport \"context\"\n\nvar _ context.Context\n\n"
	// For the placeholders.
	orderType = `
type Order struct {
	ID    string
	Price float64
	Tags  []string
	By    map[string]int
	Call  func() string
	Part  struct{ N int }
	Done  chan int
	Sum   [4]byte
	Next  *Order
}

func (o *Order) Sku() string            { return "" }
func (o *Order) At(int) string          { return "" }
func (o *Order) Both() (string, error)  { return "", nil }
`
)

// commentMistakes are comments above a method M, and the parameters of M beside
// its ctx. Each has a mark at the place of the mistake, and the expected
// message.
var commentMistakes = []struct{ above, params, want string }{
	// Keys.
	{"//guard:lock stock:{¦skuu}", "sku string, n int", "M has no parameter skuu, only ctx, sku, n"},
	{"//guard:lock o:{o.¦Id}", "o *Order", "*Order has no field or method Id"},
	{"//guard:lock o:{o.Next.Next.¦Nix}", "o Order", "*Order has no field or method Nix"},
	{"//guard:lock o:{sku.¦ID}", "sku string", "string has no field or method ID"},
	{"//guard:lock o:{o.¦Sku}", "o *Order", "Sku of *Order is a method, write Sku()"},
	{"//guard:lock o:{o.¦ID()}", "o *Order", "ID of *Order is a field, write it without ()"},
	{"//guard:lock o:{o.¦At()}", "o *Order", "At of *Order must be a method without arguments and with one result"},
	{"//guard:lock o:{o.¦Both()}", "o *Order", "Both of *Order must be a method without arguments and with one result"},
	{"//guard:lock o:{¦o.Price}", "o *Order", "o.Price is a float (float64), which cannot be part of a key"},
	{"//guard:lock o:{¦o.Tags}", "o *Order", "o.Tags is a slice ([]string)"},
	{"//guard:lock o:{¦o.By}", "o *Order", "o.By is a map (map[string]int)"},
	{"//guard:lock o:{¦o.Call}", "o *Order", "o.Call is a func (func() string)"},
	{"//guard:lock o:{¦o.Part}", "o *Order", "o.Part is a struct without String or MarshalText"},
	{"//guard:lock o:{¦o.Done}", "o *Order", "o.Done is a channel"},
	{"//guard:lock o:{¦o.Sum}", "o *Order", "o.Sum is an array"},
	{"//guard:lock o:{¦o}", "o *Order", "o is a pointer without String or MarshalText (*Order)"},
	{"//guard:lock o:{¦v}", "v any", "v is an interface without String or MarshalText"},
	{"//guard:lock o:{¦v}", "v complex128", "v is a complex128"},
	{"//guard:lock o:{¦skus}", "skus ...string", "skus is a slice ([]string)"},
	// Templates.
	{
		"//guard:lock ¦nightly", "",
		`"nightly" has no {placeholder}, so all calls would share one lock: name a parameter, or add the option one`,
	},
	{"//guard:lock stock:{sku} + ¦ledger", "sku string", `"ledger" has no {placeholder}`},
	{"//guard:lock ¦stock:sku", "sku string", `"stock:sku" has no {placeholder}`},
	{"//guard:lock stock:¦$sku one", "sku string", "'$' makes no placeholder: write {sku}"},
	{"//guard:lock stock:¦${sku}", "sku string", "'$' makes no placeholder: write {sku}"},
	{"//guard:lock stock:¦<sku>", "sku string", "'<' makes no placeholder: write {sku}"},
	{"//guard:lock {sku}:¦<n>", "sku string, n int", "'<' makes no placeholder: write {n}"},
	{"//guard:lock stock:¦%s:{sku}", "sku string", `"%s" makes no placeholder: write {parameter}`},
	{"//guard:lock stock:{sku}-¦%d", "sku string", `"%d" makes no placeholder: write {parameter}`},
	{"//guard:lock stock/¦:sku:{sku}", "sku string", `":sku" makes no placeholder: write {sku}`},
	{"//guard:lock {sku}:¦$", "sku string", "'$' makes no placeholder: write {parameter}"},
	{"//guard:lock sku¦+order:{sku}", "sku string", "several keys are joined with ' + ', with spaces around it"},
	{"//guard:lock {sku}:a¦+b:{sku}", "sku string", "several keys are joined with ' + ', with spaces around it"},
	{"//guard:lock¦", "", "no key template"},
	{"//guard:lock ¦wait=1s", "", `no key template before "wait=1s"`},
	{"//guard:lock ¦fencing", "", `no key template before "fencing"`},
	{"//guard:lock a +¦", "", "no key template"},
	{"//guard:lock a + ¦norenew", "", `no key template before "norenew"`},
	{"//guard:lock stock:¦", "", "empty part in the key"},
	{"//guard:lock ¦:{sku}", "sku string", "empty part in the key"},
	{"//guard:lock a:¦:b", "", "empty part in the key"},
	{"//guard:lock stock:{¦}", "", `"" is not a parameter, field or method()`},
	{"//guard:lock stock:¦{sku", "sku string", "'{' without '}'"},
	{"//guard:lock stock:sku¦}", "sku string", "'}' without '{'"},
	{"//guard:lock {a}-¦{b}", "a, b string", "second placeholder in one part of the key, separate them with ':'"},
	{"//guard:lock {a}¦+{b}", "a, b string", "several keys are joined with ' + '"},
	{"//guard:lock {¦_}", "_ string", `"_" is not a parameter`},
	{"//guard:lock {¦a()}", "a func() string", `"a()" is a call, a placeholder starts with a parameter`},
	{"//guard:lock {o.¦At(1)}", "o *Order", `"At(1)" is not a parameter, field or method()`},
	{
		"//guard:lock stock:{sku¦|int}", "sku string",
		"modifiers such as |int are for routes: a parameter has the spelling of its type",
	},
	// Options.
	{"//guard:lock a one wait=¦200", "", `wait is "200", want a duration such as 200ms`},
	{"//guard:lock a one wait=¦-1s", "", `wait is "-1s", want a duration such as 200ms`},
	{"//guard:lock a one minhold=¦-5s", "", `minhold is "-5s", want a duration`},
	{"//guard:lock a one hold=¦long", "", `hold is "long", want a duration`},
	{"//guard:lock a one ttl=¦99ms", "", "want a duration of 100ms to 576h in whole milliseconds"},
	{"//guard:lock a one waiters=¦1.5", "", `waiters is "1.5", want a whole number, 0 or more`},
	{"//guard:lock a one permits=¦0", "", `permits is "0", want a whole number, 1 to 999998`},
	{"//guard:lock a one ¦permits", "", "option permits has no value, want permits="},
	{"//guard:lock a one ¦shared=yes", "", "option shared takes no value"},
	{
		"//guard:lock a one ¦permits=3 shared", "",
		"permits together with shared: a key is shared by any number, or by so many",
	},
	{"//guard:lock a one shared ¦fencing", "", "fencing together with shared: a shared lease has no fencing token"},
	{
		"//guard:lock a one shared wait=1s ¦minhold=5s", "",
		"minhold together with shared: a shared lease keeps no other reader out",
	},
	{"//guard:lock a one ¦once=1h", "", "once keeps one result, and M has none beside its error"},
	{"//guard:lock a one name=¦", "", `name is "", want a word`},
	{"//guard:lock a one ¦wait", "", "option wait has no value, want wait="},
	{"//guard:lock a one ¦fencing=true", "", "option fencing takes no value"},
	{"//guard:lock a one wait=1s ¦wait=1s", "", "option wait is given twice"},
	{"//guard:lock a one norenew ¦norenew", "", "option norenew is given twice"},
	{"//guard:lock a one ¦expire=1s", "", `unknown option "expire", want wait=, ttl=`},
	{"//guard:lock a one ¦b:{c}", "c string", "is not an option; several keys are joined with ' + '"},
	{"//guard:lock a one ¦func=X", "", "func= names the guarded form of a function, M is a method"},
	{"//guard:lock stock:{sku} ¦one", "sku string", "option one is for a key without a {placeholder}"},
	{"//guard:lock a one wait=¦10ns", "", `wait is "10ns", want 0s or at least 1ms`},
	{"//guard:lock a one hold=¦999us", "", `hold is "999us", want 0s or at least 1ms`},
	{"//guard:lock a one minhold=¦1ns", "", `minhold is "1ns", want 0s or at least 1ms`},
	{"//guard:lock a one ttl=5s ¦minhold=1h norenew", "", "minhold is longer than a key lasts with norenew: 5s"},
	{"//guard:lock a one norenew ¦minhold=577h", "", "minhold is longer than a key lasts with norenew: 576h"},
	// Directives in the wrong place, or in the wrong words.
	{"¦// guard:lock a one", "", "not a directive: write //guard:lock without spaces before it"},
	{"¦//Guard:lock a one", "", `unknown directive "//Guard:lock", want "//guard:lock"`},
	{"¦//gaurd:lock a", "", `unknown directive "//gaurd:lock", want "//guard:lock"`},
	{"¦//go:lock a", "", `unknown directive "//go:lock", want "//guard:lock"`},
	{"¦//guard-lock a", "", `unknown directive "//guard-lock", want "//guard:lock"`},
	{"¦// gard:lock a", "", "not a directive: write //guard:lock without spaces before it"},
	{"¦//lock stock:{sku}", "sku string", `"//lock" is likely a misspelling of "//guard:lock"`},
	{"¦//lockguard:lock a", "", `"//lockguard:lock" is likely a misspelling of "//guard:lock"`},
	{"¦//lock:guard a", "", `"//lock:guard" is likely a misspelling of "//guard:lock"`},
	{"¦//Lock4j a", "", `"//Lock4j" is likely a misspelling of "//guard:lock"`},
	{"¦//@Lock4j a", "", `"//@Lock4j" is likely a misspelling of "//guard:lock"`},
	{"¦//@Lock4j(keys = \"#sku\", expire = 5000)", "sku string", `"//@Lock4j" is likely a misspelling of "//guard:lock"`},
	{"¦// @Lock4j(keys = {\"#sku\"})", "sku string", `"//@Lock4j" is likely a misspelling of "//guard:lock"`},
	{"¦//@Lock(sku)", "sku string", `"//@Lock" is likely a misspelling of "//guard:lock"`},
	{"¦//Lock(sku)", "sku string", `"//Lock" is likely a misspelling of "//guard:lock"`},
	{"¦// @lock", "", `"//@lock" is likely a misspelling of "//guard:lock"`},
	{"¦//guard：lock a", "", `unknown directive "//guard：lock", want "//guard:lock"`},
	{"//guard:lock stock:¦#{sku}", "sku string", `"#" makes no placeholder: write {sku}`},
	{"//guard:lock stock-¦#sku", "sku string", `"#" makes no placeholder: write {sku}`},
	{"//guard:lock stock¦：{sku}", "sku string", `"：" is a full-width character: write :`},
	{"//guard:lock stock:¦｛sku｝", "sku string", `"｛" is a full-width character: write {`},
	{"¦/*guard:lock a*/", "", "not a directive: write //guard:lock, not a block comment"},
	{"¦/* gard:lock */", "", "not a directive: write //guard:lock, not a block comment"},
	{"¦//guard:lok a", "", `unknown directive "//guard:lok", want "//guard:lock"`},
	{"¦// Guard:Lock a one", "", "not a directive: write //guard:lock without spaces before it"},
	{"¦//guard:locks a", "", `unknown directive "//guard:locks", want "//guard:lock"`},
}

// methodMistakes are the same for whole methods.
var methodMistakes = []struct{ method, want string }{
	{
		"//guard:lock stock:{¦sku}\n\tM(context.Context, string) error",
		"M has no parameter sku: its parameters have no names",
	},
	{
		"//guard:lock a one once=¦0s\n\tM(ctx context.Context) (int, error)",
		`once is "0s", want a duration of at least 1ms`,
	},
	{
		"//guard:lock a one ¦once=1h\n\tM(ctx context.Context) (a, b int, err error)",
		"once keeps one result, and M has 2 beside its error",
	},
	{
		"//guard:lock {a} + {b} ¦once=1h\n\tM(ctx context.Context, a, b string) (int, error)",
		"once with several keys: a result is kept for one key",
	},
	{
		"//guard:lock a one ¦minhold=5s once=1h\n\tM(ctx context.Context) (int, error)",
		"minhold together with once: the result keeps others out by itself",
	},
	{
		"//guard:lock a one once=1h ¦failopen\n\tM(ctx context.Context) (int, error)",
		"failopen together with once: without the store nothing runs",
	},
	{"//guard:lock a one\n\t¦M() error", "M cannot be guarded: the first parameter must be a context.Context"},
	{
		"//guard:lock a one\n\t¦M(a string, ctx context.Context) error",
		"M cannot be guarded: the first parameter must be a context.Context",
	},
	{
		"//guard:lock a one\n\t¦M(ctx ...context.Context) error",
		"M cannot be guarded: the first parameter must be a context.Context",
	},
	{"//guard:lock a one\n\t¦M(ctx context.Context)", "M cannot be guarded: the last result must be an error"},
	{
		"//guard:lock a one\n\t¦M(ctx context.Context) (error, int)",
		"M cannot be guarded: the last result must be an error",
	},
	{"//guard:lock a one\n\tM(ctx context.Context, o ¦Ordr) error", "undefined: Ordr"},
	{"¦//gaurd:lock a\n\n\tM(ctx context.Context) error", `unknown directive "//gaurd:lock", want "//guard:lock"`},
	{"M(ctx context.Context) error ¦/*guard:lock a*/", "not a directive: write //guard:lock, not a block comment"},
	{
		"//guard:lock a one\n\t¦//guard:lock b\n\tM(ctx context.Context) error",
		"second directive above M: several keys are joined with ' + '",
	},
	{"¦//guard:lock a one\n\n\tM(ctx context.Context) error", "nothing is guarded here"},
	{"M(ctx context.Context) error ¦//guard:lock a one", "nothing is guarded here"},
	{"¦//guard:lock a one\n\tinterface{ M() error }", "nothing is guarded here"},
	{"N(interface {\n\t¦//guard:lock a one\n\tM(ctx context.Context) error\n\t})", "nothing is guarded here"},
}

// declMistakes are the same for whole declarations.
var declMistakes = []struct{ decl, want string }{
	{"¦//gaurd:lock a\nfunc F(ctx context.Context) error { return nil }", `unknown directive "//gaurd:lock"`},
	{
		"type T struct{}\n\n¦//go:lock a\nfunc (T) M(ctx context.Context) error { return nil }",
		`unknown directive "//go:lock"`,
	},
	{"¦//guard:lock a one\ntype T interface{ M(ctx context.Context) error }", "nothing is guarded here"},
	{"type T struct {\n\t¦//guard:lock a one\n\tM func(ctx context.Context) error\n}", "nothing is guarded here"},
	{"type T = interface {\n\t¦//guard:lock a one\n\tM(ctx context.Context) error\n}", "nothing is guarded here"},
	{"type _ interface {\n\t¦//guard:lock a one\n\tM(ctx context.Context) error\n}", "nothing is guarded here"},
	{
		"type T struct{}\n\n¦//GUARD:LOCK a one\nfunc (T) M(ctx context.Context) error { return nil }",
		"nothing is guarded here",
	},
	{
		"type T struct{}\n\n¦//guard:lock a one\nfunc (T) M(ctx context.Context) error { return nil }",
		"nothing is guarded here",
	},
	{
		"func f() {\n\ttype T interface {\n\t\t¦//guard:lock a one\n\t\tM(ctx context.Context) error\n\t}\n}",
		"nothing is guarded here",
	},
	{
		"type T interface {\n\t~int\n\t¦//guard:lock a one\n\tM(ctx context.Context) error\n}",
		"T is a constraint, it has no values to guard",
	},
	{
		"type T[K float32 | string] interface {\n\t//guard:lock {¦k}\n\tM(ctx context.Context, k K) error\n}",
		"k is a float (K)",
	},
	{
		"type ¦T interface {\n\t//guard:lock a one\n\tM(ctx context.Context) error\n}\n\nvar GuardT int",
		"GuardT is already declared, so T cannot be guarded under this name",
	},
	{
		"//guard:lock a one\nfunc ¦F(ctx context.Context) error { return nil }\n\nfunc FLocked() {}",
		"FLocked is already declared",
	},
	{"//guard:lock a one func=G\nfunc F(ctx context.Context) error { return nil }\n\n//guard:lock a one func=G\nfunc " +
		"¦H(ctx context.Context) error { return nil }", "G is already declared"},
	{
		"//guard:lock a one func=¦3\nfunc F(ctx context.Context) error { return nil }",
		`func is "3", want the name of a function`,
	},
	{"//guard:lock {¦x}\nfunc F(ctx context.Context, n int) error { return nil }", "F has no parameter x, only ctx, n"},
	{
		"//guard:lock a one\nfunc ¦F(n int) error { return nil }",
		"F cannot be guarded: the first parameter must be a context.Context",
	},
	{"//guard:lock a one\nfunc ¦F(ctx context.Context) {}", "F cannot be guarded: the last result must be an error"},
	{"//guard:lock a one\nfunc ¦init() {}", "init cannot be guarded: nobody can call it"},
}

func TestMistakesAreReportedWhereTheyAre(t *testing.T) {
	var sources, wants []string
	method := func(text, want string) {
		sources = append(sources, head+"type T interface {\n\t"+text+"\n}\n"+orderType)
		wants = append(wants, want)
	}
	for _, m := range commentMistakes {
		ctx, _ := strings.CutSuffix("ctx context.Context, "+m.params, ", ")
		method(m.above+"\n\tM("+ctx+") error", m.want)
	}
	for _, m := range methodMistakes {
		method(m.method, m.want)
	}
	for _, m := range declMistakes {
		sources = append(sources, head+m.decl+"\n")
		wants = append(wants, m.want)
	}
	// All are in one module, each in its own package. One run must show every
	// mistake and write nothing.
	files := map[string]string{"good/good.go": head + good, "unusual/unusual.go": head + unusual}
	var lines []string
	for i, src := range sources {
		before, after, marked := strings.Cut(src, "¦")
		if !marked {
			t.Fatalf("no mark in %q", src)
		}
		name := fmt.Sprintf("p%03d/m.go", i)
		files[name] = before + after
		line := strings.Count(before, "\n") + 1
		column := len(before) - strings.LastIndex(before, "\n")
		lines = append(lines, fmt.Sprintf("%s:%d:%d: ", name, line, column))
	}
	dir := module(t, files)
	var stderr bytes.Buffer
	if code := run(dir, []string{"./..."}, &stderr); code != exitFailed {
		t.Errorf("exit status %d", code)
	}
	got := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
	for i := range sources {
		if i >= len(got) || !strings.HasPrefix(got[i], lines[i]) || !strings.Contains(got[i], wants[i]) {
			t.Fatalf("for\n%s\ngot  %s\nwant %s%s", sources[i], got[min(i, len(got)-1)], lines[i], wants[i])
		}
	}
	if rest := got[len(sources):]; len(rest) != 1 || rest[0] != "guardgen: nothing is written" {
		t.Errorf("also got %q", rest)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*", fileName)); len(found) > 0 {
		t.Errorf("written in spite of the mistakes: %q", found)
	}
}

const good = `type Stock interface {
	//guard:lock stock:{sku}
	Deduct(ctx context.Context, sku string) error
}
`

// unusual has code that looks like a mistake but is none. A function may have
// to end before its key could expire.
const unusual = `type Stock interface {
	//guard:lock 100%:stock/{sku}/%discount hold=1s ttl=10s
	Return(ctx context.Context, sku string) error

	//guard:lock order#{id}:#7:#
	Number(ctx context.Context, id string) error

	//Lock locks the door.
	Lock()

	//TryLock(nothing) does not wait.
	TryLock()

	// lock is prose, and so are the others:
	// locked, lock4j, Lock(door)
	// lock(door) too, and Lock: it locks
	Close()
}

//lock the door
var _ Stock
`
