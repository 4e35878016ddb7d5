package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
)

const patience = 40 * time.Second

// tab is one page in the browser. It fails its test on an error in the console
// and on a request to elsewhere.
type tab struct {
	t   *testing.T
	ctx context.Context
}

var browsers = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// openBrowser starts a browser of its own with one tab at url; it ends with t.
func openBrowser(t *testing.T, at string) *tab {
	t.Helper()
	var binary string
	for _, name := range browsers {
		if found, err := exec.LookPath(name); err == nil {
			binary = found
			break
		}
	}
	if binary == "" {
		t.Skipf("no browser: install one of %s (on Debian: apt-get install chromium)", strings.Join(browsers, ", "))
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(binary), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), opts...)
	t.Cleanup(cancel)
	first := (&tab{t, ctx}).another()
	first.do(chromedp.Navigate(at))
	return first
}

// another opens one more tab in the same browser; it ends with the test.
func (tb *tab) another() *tab {
	t := tb.t
	t.Helper()
	ctx, cancel := chromedp.NewContext(tb.ctx)
	tb = &tab{t, ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // closes the browser with its first tab, and waits
		cancel()
	})
	faults := &faults{}
	if err := chromedp.Listen(ctx, faults.hear); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { faults.report(t) })
	tb.call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
		return err
	})
	return tb
}

// call runs something with the tab, within a limit.
func (tb *tab) call(do func(ctx context.Context) error) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if err := do(ctx); err != nil {
		tb.t.Fatal(err)
	}
}

func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	tb.call(func(ctx context.Context) error { return chromedp.Do(ctx, steps...) })
}

// run returns what an action comes to.
func run[T any](tb *tab, a chromedp.Action[T]) (value T) {
	tb.t.Helper()
	tb.call(func(ctx context.Context) (err error) {
		value, err = chromedp.Run(ctx, a)
		return err
	})
	return value
}

// eval returns what an expression in the page comes to.
func eval[T any](tb *tab, expression string) T {
	tb.t.Helper()
	return run(tb, chromedp.Evaluate[T](expression))
}

func (tb *tab) click(selector string) {
	tb.t.Helper()
	tb.await(fmt.Sprintf("!document.querySelector(%q).disabled", selector))
	tb.do(chromedp.Click(chromedp.CSS(selector)))
}

// await waits until a condition in the page holds.
func (tb *tab) await(condition string) {
	tb.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		if eval[bool](tb, "Boolean("+condition+")") {
			return
		}
	}
	verdict := eval[string](tb, "document.getElementById('verdict').textContent + ' / ' + "+
		"document.getElementById('trouble').textContent")
	tb.shoot("failed")
	tb.t.Fatalf("waited in vain for %s; the page says %q", condition, verdict)
}

// look sets the width of the window, and the color scheme.
func (tb *tab) look(width int64, scheme string) {
	tb.t.Helper()
	height := int64(1000)
	if width < 500 {
		height = 844
	}
	tb.window(width, height)
	tb.call(func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
	time.Sleep(300 * time.Millisecond) // for the plots to follow; only pictures depend on it
}

// window sets the size of the window.
func (tb *tab) window(width, height int64) {
	tb.t.Helper()
	tb.do(chromedp.EmulateViewport(width, height))
}

// shoot keeps a picture of the whole page in screenshots/.
func (tb *tab) shoot(name string) {
	tb.t.Helper()
	tb.keep(name, run(tb, chromedp.FullScreenshot(100)))
}

// shootWindow keeps a picture of what the window shows.
func (tb *tab) shootWindow(name string) {
	tb.t.Helper()
	tb.keep(name, run(tb, chromedp.CaptureScreenshot()))
}

func (tb *tab) keep(name string, picture []byte) {
	tb.t.Helper()
	if err := os.MkdirAll("screenshots", 0o755); err != nil {
		tb.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("screenshots", name+".png"), picture, 0o600); err != nil {
		tb.t.Fatal(err)
	}
}

// shootAll takes pictures at both widths in both schemes, and checks that
// nothing needs to be scrolled sideways.
func (tb *tab) shootAll(name string) {
	tb.t.Helper()
	for _, width := range []int64{390, 1600} {
		for _, scheme := range []string{"dark", "light"} {
			tb.look(width, scheme)
			tb.shoot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
		}
		if wide := eval[float64](tb, "document.documentElement.scrollWidth"); wide > float64(width) {
			tb.t.Errorf("at %d the page is %v wide", width, wide)
		}
	}
}
