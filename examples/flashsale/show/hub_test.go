package show

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestFiftyTabsHearTheSame(t *testing.T) {
	t.Parallel()
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
	if status, text := p.post(t, "start",
		`{"mode": "fence", "stock": 20, "requests": 60, "buyers": 10, "think": 2000000}`); status != http.StatusNoContent {
		t.Fatalf("status %d %s", status, text)
	}
	wg.Wait()
	late, err := p.listen(t.Context(), hasEnded)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join(late, "\n")
	for i, h := range heard {
		// those from the beginning have heard of the empty stage too
		if got := strings.Join(h, "\n"); !strings.HasSuffix(got, want) {
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
	t.Parallel()
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
		p.hub.publish(update{Said: []said{{text: say(line)}}})
	}
	p.hub.publish(update{Phase: phaseEnded})
	if err := <-read; err != nil {
		t.Errorf("the tab that reads: %v", err)
	}
	awaitTabs(t, p.hub, 0)
}

func awaitTabs(t *testing.T, h *hub, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		got := len(h.tabs)
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
		h.tabs <- struct{}{}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", http.NoBody))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
}
