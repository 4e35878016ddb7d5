package browsertest

import (
	"fmt"
	"testing"
)

// wantNumbersOf compares the page with a report.
func (tb *tab) wantNumbersOf(r report) {
	tb.t.Helper()
	tb.await("document.getElementById('status').dataset.phase === 'ended'")
	for _, what := range []string{
		"stock", "orders", "oversold", "lost_updates", "late_writes_refused", "leases_lost",
		"refused", "errors", "rps",
	} {
		got := eval[float64](tb, fmt.Sprintf("Number(document.querySelector('[data-n=%s]').dataset.value)", what))
		if got != r[what] {
			tb.t.Errorf("%s is %v on the page, %v in the report", what, got, r[what])
		}
	}
	for _, what := range []string{"wait_p50_ms", "wait_p99_ms", "hold_p50_ms", "hold_p99_ms"} {
		got := eval[float64](tb, fmt.Sprintf("Number(document.querySelector('[data-q=%s]').dataset.value)", what))
		if got != r[what] {
			tb.t.Errorf("%s is %v on the page, %v in the report", what, got, r[what])
		}
	}
}

func TestEachActIsOneClickAndShowsTheNumbersOfItsReport(t *testing.T) {
	p := startProgram(t)
	tb := openBrowser(t, p.url)
	tb.look(1600, "light")
	for act := 1; act <= 5; act++ {
		tb.click(fmt.Sprintf("[data-act='%d']", act))
		r := p.nextReport(t)
		tb.wantNumbersOf(r)
		t.Logf("act %d: %v orders for %v, oversold %v, lost updates %v, late writes refused %v, leases lost %v", act,
			r["orders"], r["stock"], r["oversold"], r["lost_updates"], r["late_writes_refused"], r["leases_lost"])
		if missed := eval[[]string](tb, "sale.missed || []"); len(missed) > 0 {
			t.Errorf("act %d did not go as told: %v", act, missed)
		}
		if act == 3 {
			tb.shootAll("act3")
		} else {
			tb.shoot(fmt.Sprintf("act%d-1600-light", act))
		}
	}
}

// A visitor with a laptop sees the verdict and the lanes of all processes at
// once, without scrolling.
func TestLanesAreAboveTheFoldOfALaptop(t *testing.T) {
	const width, height = 1280, 800
	p := startProgram(t)
	tb := openBrowser(t, p.url)
	tb.look(width, "light")
	tb.window(width, height)
	for _, act := range []int{1, 3} {
		tb.click(fmt.Sprintf("[data-act='%d']", act))
		tb.wantNumbersOf(p.nextReport(t))
		tb.shootWindow(fmt.Sprintf("act%d-%dx%d", act, width, height))
		for _, id := range []string{"verdict", "timeline"} {
			at := eval[[]float64](tb,
				fmt.Sprintf("(r => [r.top, r.bottom])(document.getElementById('%s').getBoundingClientRect())", id))
			if at[0] < 0 || at[1] > height {
				t.Errorf("act %d: %s reaches from %v to %v in a window of %d lines", act, id, at[0], at[1], height)
			}
		}
	}
}
