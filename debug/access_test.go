package debug_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-lockguard/guard/debug"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestAnotherSiteCannotUseThePage(t *testing.T) {
	h := debug.Handler(newGuard(t, memlocker.New()))
	link := map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	frame := map[string]string{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
	for _, c := range []struct {
		site, target string
		header       map[string]string
		status       int
	}{
		{"", "/?stacks=1", nil, 200}, // no browser
		{"none", "/?stacks=1", link, 200},
		{"same-origin", "/?stacks=1", nil, 200},
		{"cross-site", "/", link, 200},
		{"cross-site", "/?stacks=1", link, 403},
		{"cross-site", "/", frame, 403},
		{"cross-site", "/", nil, 403},
		{"same-site", "/?store=1", nil, 403},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.target, http.NoBody)
		r.Header.Set("Sec-Fetch-Site", c.site)
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%+v: got %d", c, w.Code)
		}
		if c.status == http.StatusOK && w.Header().Get("X-Frame-Options") != "DENY" {
			t.Error("the page may be framed")
		}
	}
}

func TestANameThatOthersPointAtLoopbackIsRefused(t *testing.T) {
	s := httptest.NewServer(debug.Handler(newGuard(t, memlocker.New())))
	defer s.Close()
	for host, status := range map[string]int{
		"": 200, "localhost": 200, "LOCALHOST:80": 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "[::1]:8080": 200,
		"[::1]":        200,
		"evil.example": 421, "evil.example:8080": 421, "10.0.0.1": 421, "localhost.evil.example": 421,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%q: got %d, want %d", host, res.StatusCode, status)
		}
	}
	// Elsewhere a service may have any name.
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://stock/", http.NoBody)
	s.Config.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("not on loopback: got %d", w.Code)
	}
}
