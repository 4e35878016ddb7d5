//go:build unix

package show

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// lastOf waits for the end of the run that is on, and returns all that pages
// have heard of it.
func (p *testPage) lastOf(t *testing.T) (last update, all string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard, err := p.listen(ctx, hasEnded)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(heard[len(heard)-1]), &last); err != nil {
		t.Fatal(err)
	}
	return last, strings.Join(heard, "\n")
}

// must presses a button that fits the moment.
func (p *testPage) must(t *testing.T, path, body string) {
	t.Helper()
	if status, text := p.post(t, path, body); status != http.StatusNoContent {
		t.Fatalf("%s %s: status %d %s", path, body, status, text)
	}
}

// It is not parallel: its hand must come while the sale lasts. A price takes so
// long that even a busy machine stops the holder in its step.
func TestTheHandOfFateSpoilsNoCountUnderAFence(t *testing.T) {
	p := servePage(t)
	p.cfg.TTL = 500 * time.Millisecond
	p.must(t, "start", `{"mode": "fence", "stock": 40, "requests": 120, "buyers": 8, "think": 200000000, "deaf": true}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	selling := func(u update) bool { return u.Numbers != nil && u.Numbers.Sold > 5 }
	if _, err := p.listen(ctx, selling); err != nil {
		t.Fatal(err)
	}
	p.must(t, "pause", `{"instance": "holder"}`)
	var paused string
	if _, err := p.listen(ctx, func(u update) bool {
		for _, l := range u.Lanes {
			if l.State == lanePaused {
				paused = l.Name
			}
		}
		return paused != ""
	}); err != nil {
		t.Fatal(err)
	}
	if status, _ := p.post(t, "pause", `{"instance": "`+paused+`"}`); status != http.StatusConflict {
		t.Errorf("paused twice: status %d", status)
	}
	shop.Pause(ctx, 2*p.cfg.TTL)
	p.must(t, "continue", `{"instance": "`+paused+`"}`)
	p.must(t, "kill", `{"instance": "holder"}`)
	p.must(t, "spawn", "")
	p.must(t, "cut", `{"seconds": 0.5}`)

	last, all := p.lastOf(t)
	if last.Result == nil {
		t.Fatalf("no result: %v", last.Error)
	}
	r := *last.Result
	t.Logf("%+v", r)
	if r.Oversold != 0 || r.LostUpdates != 0 || r.Sold != r.Orders || r.Sold == 0 {
		t.Errorf("%d sold, %d orders, oversold %d, lost updates %d", r.Sold, r.Orders, r.Oversold, r.LostUpdates)
	}
	if r.LateWrites == 0 || r.Errors == 0 {
		t.Errorf("%d late writes refused, %d errors", r.LateWrites, r.Errors)
	}
	for _, want := range []string{
		`"k":"paused"`, `"k":"killed"`, `"k":"cut"`, `"name":"app-5"`, `"state":"gone"`,
		`"k":"late_write_refused"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("pages have not heard of %s", want)
		}
	}
}

func TestStopLetsThoseInTheShopFinishAndResetClears(t *testing.T) {
	t.Parallel()
	p := servePage(t)
	p.must(t, "start", `{"mode": "lock", "stock": 5000, "requests": 20000, "buyers": 20, "think": 5000000}`)
	if status, _ := p.post(t, "act", `{"act": 1}`); status != http.StatusConflict {
		t.Errorf("a second run at once: status %d", status)
	}
	if _, err := p.listen(t.Context(), func(u update) bool {
		return u.Numbers != nil && u.Numbers.Sold > 5
	}); err != nil {
		t.Fatal(err)
	}
	p.must(t, "stop", "")
	last, _ := p.lastOf(t)
	if r := last.Result; r == nil || r.Errors != 0 || r.Requests != r.Sold || r.LostUpdates != 0 ||
		len(last.Missed) != 0 {
		t.Errorf("stopped: %+v, missed %v %v", r, last.Missed, last.Error)
	}
	p.must(t, "start", `{"mode": "none", "stock": 5000, "requests": 20000, "buyers": 20, "think": 5000000}`)
	p.must(t, "reset", "")
	if messages := p.hub.messages(); len(messages) != 2 || !strings.Contains(string(messages[1]), `"idle"`) {
		t.Errorf("after reset: %s", messages)
	}
	if status, _ := p.post(t, "stop", ""); status != http.StatusConflict {
		t.Errorf("nothing to stop: status %d", status)
	}
}

func TestButtonsRefuseWhatMakesNoSense(t *testing.T) {
	p := servePage(t)
	for body, path := range map[string]string{
		`{"act": 6}`: "act", `{"stock": -1}`: "start", `{"requests": 20001}`: "start", `{"mode": "maybe"}`: "start",
		`{"buyers": 1000}`: "start", `{"think": 1000000000000000}`: "start", `{"colour": 1}`: "start", `[`: "start",
		`{"instance": "app-1"}`: "kill",
	} {
		if status, text := p.post(t, path, body); status != http.StatusConflict && status != http.StatusBadRequest ||
			!strings.Contains(text, "error") {
			t.Errorf("%s %s: status %d %s", path, body, status, text)
		}
	}
}

func TestThePageEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cfg, err := parseFlags([]string{"-web"})
	if err != nil {
		t.Fatal(err)
	}
	var out lockedBuffer
	done := make(chan error, 1)
	go func() { done <- serveWeb(ctx, cfg, newConsole(&out, ""), &out) }()
	var base, token string
	for base == "" {
		if m := regexp.MustCompile(`http://(\S+)/\?token=(\S+)`).FindStringSubmatch(out.String()); m != nil {
			base, token = m[1], m[2]
		}
		shop.Pause(ctx, time.Millisecond)
	}
	p := &testPage{addr: base, token: token}
	p.must(t, "start", `{"mode": "fence", "stock": 5000, "requests": 20000, "think": 20000000}`)
	heard := make(chan error, 1)
	go func() {
		said, err := p.listen(context.WithoutCancel(ctx),
			func(u update) bool { return u.Numbers != nil && u.Numbers.Sold > 3 })
		cancel()
		if strings.Contains(strings.Join(said, ""), token) {
			t.Error("pages are told the token")
		}
		if err == nil {
			_, err = p.listen(context.WithoutCancel(ctx), func(update) bool { return false })
		}
		heard <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-heard; err == nil {
		t.Error("the stream goes on")
	}
}

func TestARecordIsOneFileThatAsksForNothing(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "sale.html")
	var stdout, stderr bytes.Buffer
	code := run([]string{
		"-record", name, "-json", "-stock", "30", "-requests", "90", "-think",
		"2ms",
	}, &stdout, &stderr)
	if code != exitOK {
		t.Fatalf("exit status %d: %s", code, stderr.String())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(src|href)="[^#"d][^"]*"`).FindAllString(string(text), -1); len(found) != 1 ||
		found[0] != `href="record"` {
		t.Errorf("it asks for %q", found) // the link is hidden
	}
	m := regexp.MustCompile(`(?s)id="frozen">(.*?)</script>`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no run in it")
	}
	var messages []update
	if err := json.Unmarshal(m[1], &messages); err != nil {
		t.Fatal(err)
	}
	last := messages[len(messages)-1]
	var printed result
	if err := json.Unmarshal(stdout.Bytes(), &printed); err != nil {
		t.Fatal(err)
	}
	if last.Phase != phaseEnded || last.Result == nil || last.Result.Sold != 30 ||
		last.Result.Seconds != printed.Seconds {
		t.Errorf("the page has %+v, the report is %+v", last.Result, printed)
	}
	if strings.Contains(string(m[1]), "flashsale:") {
		t.Error("a key is in the record")
	}
}

func TestARecordThatCannotBeWrittenIsSaidAtOnce(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-record", filepath.Join(t.TempDir(), "no", "dir.html")}, &stdout,
		&stderr); code != exitFailed || !strings.Contains(stderr.String(), "-record") {
		t.Errorf("exit status %d, stderr %q", code, stderr.String())
	}
	if stdout.Len() > 0 {
		t.Errorf("played before: %q", stdout.String())
	}
}
