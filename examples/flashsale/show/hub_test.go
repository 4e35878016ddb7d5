package show

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

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
