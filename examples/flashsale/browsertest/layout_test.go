package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// wantNothingCutOff fails the test for each of the elements whose text is wider
// than it.
func (tb *tab) wantNothingCutOff(selector string) {
	tb.t.Helper()
	for _, text := range eval[[]string](tb, fmt.Sprintf(
		"[...document.querySelectorAll(%q)].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText)",
		selector)) {
		tb.t.Errorf("%s: %q does not fit", selector, text)
	}
}

func TestASaleOfYourOwnIsFilledAfterAnActAndAReload(t *testing.T) {
	p := startProgram(t, "-stock", "123")
	tb := openBrowser(t, p.url)
	tb.click("[data-act='5']")
	tb.wantNumbersOf(p.nextReport(t))
	tb.do(chromedp.Navigate(p.url))
	late := tb.another()
	late.do(chromedp.Navigate(p.url))
	for _, tb := range []*tab{tb, late} {
		tb.await("sale.phase === 'ended'")
		const form = "['mode', 'stock', 'requests', 'buyers', 'think_ms'].map((n) => own.elements[n].value).join(' ')"
		if got := eval[string](tb, form); got != "fence 123 600 24 20" {
			t.Errorf("the form has %q", got)
		}
	}
	if moral := eval[string](tb, "byId('moral').textContent"); moral[:8] != "It took " {
		t.Errorf("act 5 alone says %q", moral)
	}
}

func TestALaptopReadsWhatEachActIsAbout(t *testing.T) {
	tb := openBrowser(t, startProgram(t).url)
	tb.window(1280, 800)
	tb.await("!document.querySelector('[data-act]').disabled")
	if n := eval[float64](tb, "[...document.querySelectorAll('.acts span')].filter((e) => e.offsetHeight > 30 && "+
		"getComputedStyle(e).clipPath === 'none').length"); n != 5 {
		t.Errorf("%v of 5 acts say what they are about", n)
	}
	if text := eval[string](tb, "document.querySelector('.legend').innerText.replace(/[ -~\\n]/g, '')"); text != "" {
		t.Errorf("the legend has %q, which needs a font of symbols", text)
	}
}

func TestLargeNumbersFitTheirTiles(t *testing.T) {
	tb := openBrowser(t, startProgram(t).url)
	tb.await("!document.querySelector('[data-act]').disabled")
	for _, width := range []int64{1600, 1280, 1101, 800, 390} {
		tb.window(width, 800)
		tb.do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('.tile dd[data-n]').forEach((e) => { " +
			"e.textContent = '12,345'; e.closest('.tile').dataset.tone = 'bad'; }), undefined"))
		tb.wantNothingCutOff(".tile dd")
	}
}
