package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is one page in the browser. It fails its test on an error in the console and on a request to elsewhere.
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
	first := newTab(t, ctx)
	first.do(chromedp.Navigate(at))
	return first
}

func newTab(t *testing.T, parent context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithErrorf(func(string, ...any) {}))
	tb := &tab{t, ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // closes the browser with its first tab, and waits
		cancel()
	})
	var mu sync.Mutex // guards faults
	var faults []string
	fault := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		faults = append(faults, fmt.Sprintf(format, args...))
	}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			fault("exception: %s", e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				fault("console: %s", e.Args[0].Value)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError {
				fault("console: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *network.EventRequestWillBeSent:
			u, err := url.Parse(e.Request.URL)
			if err != nil || (u.Scheme != "data" && u.Scheme != "file" && u.Hostname() != "127.0.0.1") {
				fault("request to %s", e.Request.URL)
			}
		}
	})
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range faults {
			t.Error(f)
		}
	})
	tb.do(log.Enable(), network.Enable())
	return tb
}

// do runs actions, within a limit.
func (tb *tab) do(actions ...chromedp.Action) {
	tb.t.Helper()
	limit := time.AfterFunc(40*time.Second, func() { _ = chromedp.Cancel(tb.ctx) })
	defer limit.Stop()
	if err := chromedp.Run(tb.ctx, actions...); err != nil {
		tb.t.Fatal(err)
	}
}

func (tb *tab) click(selector string) {
	tb.t.Helper()
	tb.await(fmt.Sprintf("!document.querySelector(%q).disabled", selector))
	tb.do(chromedp.Click(selector, chromedp.ByQuery))
}

// await waits until a condition in the page holds.
func (tb *tab) await(condition string) {
	tb.t.Helper()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		var ok bool
		tb.do(chromedp.Evaluate("Boolean("+condition+")", &ok))
		if ok {
			return
		}
	}
	var verdict string
	tb.do(chromedp.Evaluate("document.getElementById('verdict').textContent + ' / ' + document.getElementById('trouble').textContent", &verdict))
	tb.shoot("failed")
	tb.t.Fatalf("waited in vain for %s; the page says %q", condition, verdict)
}

// eval returns what an expression in the page comes to.
func eval[T any](tb *tab, expression string) (value T) {
	tb.t.Helper()
	tb.do(chromedp.Evaluate(expression, &value))
	return value
}

// look sets the width of the window, and the color scheme.
func (tb *tab) look(width int64, scheme string) {
	tb.t.Helper()
	height := int64(1000)
	if width < 500 {
		height = 844
	}
	tb.do(emulation.SetDeviceMetricsOverride(width, height, 1, width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
	time.Sleep(300 * time.Millisecond) // for the plots to follow; only pictures depend on it
}

// shoot keeps a picture of the whole page in screenshots/.
func (tb *tab) shoot(name string) {
	tb.t.Helper()
	var picture []byte
	tb.do(chromedp.FullScreenshot(&picture, 100))
	if err := os.MkdirAll("screenshots", 0o755); err != nil {
		tb.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("screenshots", name+".png"), picture, 0o600); err != nil {
		tb.t.Fatal(err)
	}
}
