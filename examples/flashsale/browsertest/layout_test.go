package browsertest

import (
	"fmt"
	"strings"
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

// The page in both languages, in the windows of a laptop and of a phone:
// nothing needs to be scrolled sideways, and no text is cut off.
func TestBothLanguagesFitALaptopAndAPhone(t *testing.T) {
	p := startProgram(t)
	tb := openBrowser(t, p.url)
	tb.await("!document.querySelector('[data-act]').disabled")
	english := eval[string](tb, "document.body.innerText")
	for _, act := range []int{1, 3, 5} {
		tb.click(fmt.Sprintf("[data-act='%d']", act))
		tb.wantNumbersOf(p.nextReport(t))
		for _, lang := range []string{"zh", "en"} {
			tb.click("#tongue")
			tb.await(fmt.Sprintf("lang === '%s' && document.documentElement.lang.startsWith('%s')", lang, lang))
			for _, size := range [][2]int64{{1280, 800}, {390, 844}} {
				tb.window(size[0], size[1])
				tb.shootWindow(fmt.Sprintf("window-act%d-%s-%d", act, lang, size[0]))
				tb.shoot(fmt.Sprintf("page-act%d-%s-%d", act, lang, size[0]))
				if wide := eval[float64](tb, "document.documentElement.scrollWidth"); wide > float64(size[0]) {
					t.Errorf("act %d, %s: at %d the page is %v wide", act, lang, size[0], wide)
				}
				tb.wantNothingCutOff(".tile dd, .tile dt, .acts span, .acts b, button, .lane-head p, .verdict, legend")
			}
		}
	}
	if again := eval[string](tb, "(sale.phase = 'idle', document.querySelector('.lede').innerText)"); again == "" ||
		!strings.Contains(english, again) {
		t.Errorf("back in English the page says %q", again)
	}
}

func TestTheLanguageIsThatOfTheFlagAndThenTheOneChosen(t *testing.T) {
	p := startProgram(t, "-lang", "zh")
	tb := openBrowser(t, p.url)
	for _, want := range []string{"zh", "en"} {
		tb.await(fmt.Sprintf("lang === '%s'", want))
		words := eval[[]string](tb, "lang === 'zh' ? Object.values(texts.en).filter((x) => x.length > 9 && "+
			"document.body.innerText.includes(x)) : document.body.innerText.match(/[\\p{Script=Han}，。；]+/gu).filter("+
			"(x) => x !== '中文')")
		if len(words) > 0 {
			t.Errorf("the page in %s has %q", want, words)
		}
		if want == "zh" {
			tb.click("#tongue")
			tb.await("lang === 'en'")
			tb.do(chromedp.Navigate(p.url)) // the choice outlives the flag
		}
	}
}
