package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// stateOf returns what Linux says about a process: T is stopped, "" has gone.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

func (tb *tab) pid(lane string) int {
	tb.t.Helper()
	return int(eval[float64](tb, fmt.Sprintf("sale.lanes.find((l) => l.name === '%s').pid", lane)))
}

// fill sets a field of the form.
func (tb *tab) fill(name, value string) {
	tb.t.Helper()
	tb.do(chromedp.SetValue(chromedp.CSS(fmt.Sprintf("#own [name=%s]", name)), value))
}

func TestPauseContinueKillAndCutWork(t *testing.T) {
	p := startProgram(t, "-ttl", "1s")
	tb := openBrowser(t, p.url)
	tb.look(1600, "light")
	tb.await("document.getElementById('start').disabled === false")
	tb.fill("stock", "1200") // so many that the sale goes on until all hands have worked
	tb.fill("requests", "2000")
	tb.click("#start")
	tb.await("sale.numbers && sale.numbers.orders > 10")

	tb.click("[data-fate=pause]")
	tb.await("document.querySelector('.lane-head[data-state=paused]')")
	paused := eval[string](tb, "document.querySelector('.lane-head[data-state=paused]').dataset.lane")
	if state := stateOf(tb.pid(paused)); state != "T" {
		t.Errorf("%s is paused on the page, and in state %q", paused, state)
	}
	tb.shoot("paused-1600-light")
	tb.window(1280, 800)
	tb.wantNothingCutOff(".lane-head p")
	tb.await("sale.lanes.some((l) => l.state === 'paused') && " +
		"document.getElementById('holder-text').textContent.includes('would say')")
	// another, after one lease
	tb.await("/^app-. holds the key/.test(document.getElementById('holder-text').textContent)")
	tb.click(fmt.Sprintf(".lane-head[data-lane=%s] button", paused))
	tb.await("!document.querySelector('.lane-head[data-state=paused]')")
	if state := stateOf(tb.pid(paused)); state == "T" {
		t.Errorf("%s goes on on the page, and is still stopped", paused)
	}

	tb.click("[data-fate=kill]")
	tb.await("document.querySelector('.lane-head[data-state=gone]')")
	killed := eval[string](tb, "document.querySelector('.lane-head[data-state=gone]').dataset.lane")
	if state := stateOf(tb.pid(killed)); state != "" && state != "Z" {
		t.Errorf("%s is dead on the page, and in state %q", killed, state)
	}
	tb.click("[data-fate=spawn]")
	tb.await("document.querySelector('.lane-head[data-lane=app-5]')")
	tb.do(chromedp.SetValue(chromedp.CSS("#cut-seconds"), "1"))
	tb.click("[data-fate=cut]")
	tb.await("[...sale.marks.values()].some((m) => m.k === 'cut')")

	r := p.nextReport(t)
	tb.wantNumbersOf(r)
	if r["oversold"] != 0.0 || r["lost_updates"] != 0.0 {
		t.Errorf("oversold %v, lost updates %v", r["oversold"], r["lost_updates"])
	}
	if trouble := eval[string](tb, "document.getElementById('trouble').textContent"); trouble != "" {
		t.Errorf("the page complains: %s", trouble)
	}
	tb.walk()
	tb.shootAll("fate")
}

// walk goes through the timeline by keyboard.
func (tb *tab) walk() {
	tb.t.Helper()
	tb.do(chromedp.Focus(chromedp.CSS("#timeline")))
	for _, key := range []string{kb.ArrowRight, kb.ArrowRight, kb.ArrowDown, "+", "+"} {
		tb.do(chromedp.KeyEvent(key))
	}
	if text := eval[string](tb, "document.getElementById('details').innerText"); !strings.Contains(text, "Waited") ||
		!strings.Contains(text, "token") {
		tb.t.Errorf("no details of a section: %q", text)
	}
	tb.do(chromedp.Click(chromedp.CSS("#requests summary")), chromedp.Click(chromedp.CSS("#plots summary")))
	for _, id := range []string{"requests", "plots"} {
		tb.await(fmt.Sprintf("document.querySelectorAll('#%s tbody tr').length > 3", id))
	}
	tb.do(chromedp.Click(chromedp.CSS("#requests summary")), chromedp.Click(chromedp.CSS("#plots summary")))
}

func TestTenTabsOfOneBrowserAreAllLive(t *testing.T) { // it opens six connections to one place, and no more
	p := startProgram(t)
	first := openBrowser(t, p.url)
	tabs := []*tab{first}
	for range 9 {
		tb := first.another()
		tb.do(chromedp.Navigate(p.url))
		tabs = append(tabs, tb)
	}
	tabs[9].click("[data-act='2']")
	r := p.nextReport(t)
	for _, tb := range tabs {
		tb.wantNumbersOf(r)
	}
}

func TestARecordShowsTheRunAndNothingToPress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sale.html")
	p := startProgram(t, "-record", file)
	tb := openBrowser(t, p.url)
	tb.click("[data-act='4']")
	r := p.nextReport(t)
	tb.wantNumbersOf(r)
	tb.await("document.getElementById('save').hidden === false")

	frozen := tb.another()
	frozen.do(chromedp.Navigate("file://" + file))
	frozen.wantNumbersOf(r)
	if eval[bool](frozen, "[...document.querySelectorAll('[data-act], [data-fate], #start')].some((b) => "+
		"b.checkVisibility())") {
		t.Error("there are buttons for processes that have gone")
	}
	if rows := eval[float64](frozen, "sale.visits.size"); rows < 90 {
		t.Errorf("only %v requests are in it", rows)
	}
	frozen.look(1600, "light")
	frozen.shoot("record-1600-light")
}

func TestTheCommittedRecordingOpens(t *testing.T) {
	file, err := filepath.Abs("../recording.html")
	if err != nil {
		t.Fatal(err)
	}
	tb := openBrowser(t, "file://"+file)
	tb.await("document.getElementById('status').dataset.phase === 'ended'")
	if got := eval[string](tb, "byId('verdict').textContent"); got !=
		"30 orders for 30 lamps, and none sold twice. 1 late write refused by the token." {
		t.Errorf("it says %q", got)
	}
	if lanes := eval[float64](tb, "document.querySelectorAll('.lane-head').length"); lanes != 4 {
		t.Errorf("%v lanes", lanes)
	}
}

func TestThePageExplainsItselfBeforeAnythingRuns(t *testing.T) {
	p := startProgram(t)
	tb := openBrowser(t, strings.Split(p.url, "?")[0])
	tb.await("!document.getElementById('frozen-note').hidden") // without the token one can look, not touch
	if eval[bool](tb, "[...document.querySelectorAll('button[data-act], button[data-fate], #start')].some((b) "+
		"=> !b.disabled)") {
		t.Error("buttons can be pressed without the token")
	}
	tb.do(chromedp.Navigate(p.url))
	tb.await("!document.querySelector('[data-act]').disabled")
	tb.shootAll("first")
	tb.click("[data-act='5']")
	tb.wantNumbersOf(p.nextReport(t))
	p.stop()
	tb.await("document.getElementById('phase').textContent.includes('has ended')")
	tb.await("document.querySelector('[data-act]').disabled")
}
