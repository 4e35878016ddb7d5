package show

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
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
	p := &testPage{stage: newStage(ctx, cfg, h, func(update) {}), token: "secret"}
	srv := httptest.NewUnstartedServer(nil)
	p.addr = srv.Listener.Addr().String()
	srv.Config.Handler = protect(p.token, newPage(h, p.stage))
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

// listen reads the stream of one tab until stop says so, and returns what it
// heard.
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
		"the page itself":    {header("Sec-Fetch-Site", "same-origin"), http.StatusNoContent},
		"its origin":         {header("Origin", "http://"+p.addr), http.StatusNoContent},
		"a program":          {func(*http.Request) {}, http.StatusNoContent},
		"cross-site":         {header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another local port": {header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"another origin":     {header("Origin", "http://evil.example"), http.StatusForbidden},
		"origin null":        {header("Origin", "null"), http.StatusForbidden},
		"rebound name": {
			func(r *http.Request) { r.Host = "evil.example:" + port(p.addr) },
			http.StatusMisdirectedRequest,
		},
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
		get := func(change func(*http.Request)) (status int, policy string) {
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
			return resp.StatusCode, resp.Header.Get("Content-Security-Policy")
		}
		if status, _ := get(func(r *http.Request) {
			r.Host = "evil.example:" + port(p.addr)
		}); status != http.StatusMisdirectedRequest {
			t.Errorf("%s for another name: status %d", path, status)
		}
		status, policy := get(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		if want := path == "/"; (status == http.StatusOK) != want { // a link to the page is fine, a stream is not
			t.Errorf("%s from another site: status %d", path, status)
		}
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
}
