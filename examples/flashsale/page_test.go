package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// testPage is the page with nothing on stage, to be ended with its test.
type testPage struct {
	*stage
	addr  string
	token string
}

func servePage(t *testing.T) *testPage {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cfg, err := parseFlags([]string{"-web"})
	if err != nil {
		t.Fatal(err)
	}
	h := newHub()
	p := &testPage{stage: newStage(ctx, cfg, h, func(result) {}), token: "secret"}
	srv := httptest.NewUnstartedServer(nil)
	p.addr = srv.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(p.addr)
	srv.Config.Handler = access{port: port, token: p.token}.protect(newPage(h, p.stage))
	srv.Start()
	t.Cleanup(func() {
		cancel()
		p.close()
		h.end()
		srv.CloseClientConnections()
		srv.Close()
	})
	return p
}

// post presses a button as the page does, and returns the status and the error.
func (p *testPage) post(t *testing.T, path, body string, change ...func(*http.Request)) (status int, refusal string) {
	t.Helper()
	target := "http://" + p.addr + "/api/" + path + "?token=" + url.QueryEscape(p.token)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(req)
	}
	resp, err := testClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

var testClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// listen reads the stream of one tab until stop says so, and returns what it heard.
func (p *testPage) listen(ctx context.Context, stop func(update) bool) (heard []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/events", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := testClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return heard, err
		}
		text, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		heard = append(heard, strings.TrimSpace(text))
		var u update
		if err := json.Unmarshal([]byte(text), &u); err != nil {
			return heard, err
		}
		if stop(u) {
			return heard, nil
		}
	}
}

func hasEnded(u update) bool { return u.Phase == phaseEnded }

func TestOtherSitesAndThoseWithoutTheTokenTouchNothing(t *testing.T) {
	p := servePage(t)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	query := func(q string) func(*http.Request) { return func(r *http.Request) { r.URL.RawQuery = q } }
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"the page itself":      {header("Sec-Fetch-Site", "same-origin"), http.StatusNoContent},
		"its origin":           {header("Origin", "http://"+p.addr), http.StatusNoContent},
		"a program":            {func(*http.Request) {}, http.StatusNoContent},
		"cross-site":           {header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another local port":   {header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"another origin":       {header("Origin", "http://evil.example"), http.StatusForbidden},
		"origin null":          {header("Origin", "null"), http.StatusForbidden},
		"rebound name":         {func(r *http.Request) { r.Host = "evil.example:" + port(p.addr) }, http.StatusMisdirectedRequest},
		"another port as host": {func(r *http.Request) { r.Host = "127.0.0.1:1" }, http.StatusMisdirectedRequest},
		"no token":             {query(""), http.StatusForbidden},
		"a wrong token":        {query("token=guess"), http.StatusForbidden},
	} {
		if status, text := p.post(t, "reset", "", c.change); status != c.want {
			t.Errorf("%s: status %d %s, want %d", name, status, text, c.want)
		}
	}
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

func TestPagesAreNotForOtherNamesAndSites(t *testing.T) {
	p := servePage(t)
	for _, path := range []string{"/", "/events", "/record"} {
		get := func(change func(*http.Request)) *http.Response {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.addr+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			change(req)
			resp, err := testClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp
		}
		if got := get(func(r *http.Request) { r.Host = "evil.example:" + port(p.addr) }); got.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s for another name: status %d", path, got.StatusCode)
		}
		got := get(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		if want := path == "/"; (got.StatusCode == http.StatusOK) != want { // a link to the page is fine, a stream is not
			t.Errorf("%s from another site: status %d", path, got.StatusCode)
		}
		if csp := got.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
}

func TestFiftyTabsHearTheSame(t *testing.T) {
	p := servePage(t)
	const tabs = 50
	heard := make([][]string, tabs)
	var wg sync.WaitGroup
	for i := range tabs {
		wg.Go(func() {
			var err error
			if heard[i], err = p.listen(t.Context(), hasEnded); err != nil {
				t.Errorf("tab %d: %v", i, err)
			}
		})
	}
	if status, text := p.post(t, "start", `{"mode": "fence", "stock": 20, "requests": 60, "buyers": 10, "think_ms": 2}`); status != http.StatusNoContent {
		t.Fatalf("status %d %s", status, text)
	}
	wg.Wait()
	late, err := p.listen(t.Context(), hasEnded)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join(late, "\n")
	for i, h := range heard {
		if got := strings.Join(h, "\n"); !strings.HasSuffix(got, want) { // those from the beginning have heard of the empty stage too
			t.Errorf("tab %d heard %d bytes, the one that came late %d", i, len(got), len(want))
		}
	}
	for _, secret := range []string{"flashsale:", "stock:lamp", p.token} {
		if strings.Contains(want, secret) {
			t.Errorf("pages are told %q", secret)
		}
	}
}

func TestATabThatNeverReadsBlocksNobodyAndIsDropped(t *testing.T) {
	p := servePage(t)
	p.hub.patience = 3 * time.Second
	deaf, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	fmt.Fprintf(deaf, "GET /events HTTP/1.1\r\nHost: %s\r\n\r\n", p.addr)
	awaitTabs(t, p.hub, 1)

	read := make(chan error, 1)
	go func() {
		_, err := p.listen(t.Context(), hasEnded)
		read <- err
	}()
	awaitTabs(t, p.hub, 2)
	line := strings.Repeat("x", 1<<20)
	for range 30 { // more than the sockets hold
		p.hub.publish(update{Said: []said{{Text: line}}})
	}
	p.hub.publish(update{Phase: phaseEnded})
	if err := <-read; err != nil {
		t.Errorf("the tab that reads: %v", err)
	}
	awaitTabs(t, p.hub, 0)
}

func awaitTabs(t *testing.T, h *hub, want int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		h.mu.Lock()
		got := h.tabs
		h.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d tabs, want %d", got, want)
		}
	}
}

func TestTooManyTabsAreRefused(t *testing.T) {
	h := newHub()
	for range maxTabs {
		h.enter()
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", http.NoBody))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
}
