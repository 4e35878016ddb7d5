package show

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// wantFit fails t if a line of text is wider than a terminal of so many
// columns. A bar writes its line again and again.
func wantFit(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		for line := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "\r") {
			if n := columns(line); n > width {
				t.Errorf("%d of %d columns: %q", n, width, line)
			}
		}
	}
}

// testSale is one as it is shown: nothing of it runs.
func testSale() (*sale, result) {
	s := &sale{cfg: defaultConfig(), store: &store{name: "localhost:6379"}, ledger: newLedger()}
	for i := range 4 {
		name := fmt.Sprintf("app-%d", i+1)
		s.ledger.lanes = append(s.ledger.lanes, lane{Name: name})
		s.fleet = append(s.fleet, &instance{
			name: name, url: "http://127.0.0.1:43210",
			cmd: &exec.Cmd{Process: &os.Process{Pid: 1234567}},
		})
		for j := range 50 {
			order, from := fmt.Sprint(name, j), int64(4*j+i)*9000+1
			s.ledger.visits[order] = &visit{Order: order, Lane: name, Held: from, Wrote: from + 9000}
		}
	}
	return s, result{
		setting: setting{Mode: shop.ModeFence, Requests: 2000, Stock: 500}, EmbeddedRedis: true,
		counts: counts{
			Sold: 499, Orders: 501, Oversold: 1, LostUpdates: 1, Refused: 1400, Errors: 1,
			RefusedByReason: map[string]int{shop.CodeSoldOut: 1200, "lock_held": 100, "lock_queue_full": 100},
		},
		reach: reach{
			Reached: 700, settled: 3, complaint: "app-1: 500 failed the price service did not answer in time",
		},
		Seconds: 4.2, RPS: 470, quantiles: quantiles{12, 12345.6, 1, 2},
	}
}

func TestNoLineIsWiderThanTheTerminal(t *testing.T) {
	for _, width := range []int{40, 60, 80, 120, 200} {
		for _, color := range []bool{false, true} {
			for lang := range languages {
				var out bytes.Buffer
				con := &console{w: &out, lang: lang, color: color, width: width}
				printAll(t, con)
				wantFit(t, out.String(), width)
				few := con.say("console.narrow", "columns", width, "few", fewColumns)[:12]
				if told := strings.Contains(out.String(), few); told != (width < fewColumns) {
					t.Errorf("%d columns: says that they are few: %v", width, told)
				}
				if t.Failed() {
					t.Fatalf("%s", out.String())
				}
			}
		}
	}
}

// printAll prints what a console has to tell of a sale, of an act and of spans.
func printAll(t *testing.T, con *console) {
	t.Helper()
	s, res := testSale()
	spans, wait, behind := testTrace(t)
	request := spans.byID[wait.Parent]
	con.printOpening(s.cfg)
	for i := range scenes {
		con.printTitle(i + 1)
		con.tell(said{1247, "good", say("said.refused", "name", "app-1", "stock", 10, "token", 1795309661357397,
			"newest", 1795309662528225)})
		con.printLanes(s.ledger.lanes, s.ledger.stretches())
		con.printHarm(res)
		con.printAfter(i+1, res, nil)
	}
	printScene(con, s)
	printReport(con, res)
	printRows(con, spans.rows(request, wait, behind), request)
	for done := 0; done <= s.cfg.Requests; done += 100 {
		con.bar(s.cfg, counts{Answered: done, Sold: s.cfg.Stock}, 0)
		con.raw("\n")
		con.progress(s.cfg, counts{Answered: done, Sold: s.cfg.Stock}, 0)
	}
}

func TestLanesUseTheRoomThatThereIs(t *testing.T) {
	s, _ := testSale()
	for width, lane := range map[int]int{40: 29, 60: 49, 80: 64, 200: 64} {
		var out bytes.Buffer
		(&console{w: &out, width: width}).printLanes(s.ledger.lanes, s.ledger.stretches())
		if got := strings.Index(out.String(), "\n") - timelineMargin; got != lane {
			t.Errorf("a lane of %d of %d columns, want %d", got, width, lane)
		}
	}
}

func TestALineGoesOnUnderItsText(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"  short\n", "  short\n"},
		{"  sold  \tone two three four five\n", "  sold  one two three four\n        five\n"},
		{"  sold out  \tone two three four\n", "  sold out  one two three\n    four\n"}, // no room for a column
		{"  one two three four five six seven", "  one two three four five\n  six seven"},
		{"  卖出  \t进程一恢复运行，guard 就取消持有者的\n", "  卖出  进程一恢复运行，\n        guard 就取消持有者的\n"},
		{"https://localhost:1/longer-than-it-is-wide\n", "https://localhost:1/longer-than-it-is-wide\n"},
		{"\x1b[1mone two three four five six\x1b[0m\n", "\x1b[1mone two three four five six\x1b[0m\n"},
	} {
		if got := fit(c.line, 28); got != c.want {
			t.Errorf("%q became %q, want %q", c.line, got, c.want)
		}
	}
}

func TestTheBarSaysWhatItCounts(t *testing.T) {
	var out bytes.Buffer
	(&console{w: &out, width: 100}).bar(defaultConfig(), counts{Answered: 680, Sold: 480}, 0)
	if !strings.Contains(out.String(), "(680/2000) requests answered, 480 of 500 sold") {
		t.Errorf("%q", out.String())
	}
}

func TestHoldsAreShortOnlyInASaleThatSoldOut(t *testing.T) {
	for _, soldOut := range []int{0, 7} {
		var out bytes.Buffer
		printReport(&console{w: &out, width: usualColumns}, result{
			setting: setting{Mode: shop.ModeLock},
			counts:  counts{RefusedByReason: map[string]int{shop.CodeSoldOut: soldOut}},
		})
		if said := strings.Contains(out.String(), "sold out"); said != (soldOut > 0) {
			t.Errorf("%d found it sold out; said so: %v", soldOut, said)
		}
	}
}

func TestColumnsOfTheEnvironmentComeFirst(t *testing.T) {
	for value, want := range map[string]int{"77": 77, "": usualColumns, "-1": usualColumns, "many": usualColumns} {
		t.Setenv("COLUMNS", value)
		if got := newConsole(&bytes.Buffer{}, "").width; got != want {
			t.Errorf("COLUMNS=%q: %d columns, want %d", value, got, want)
		}
	}
}
