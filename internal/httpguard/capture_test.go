package httpguard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/testguard"
)

// A write without bytes begins an answer in net/http, too.
func TestAnEmptyWriteBeginsTheAnswer(t *testing.T) {
	for _, held := range []bool{false, true} {
		sent := httptest.NewRecorder()
		var w http.ResponseWriter = sent
		c := httpguard.NewCapture(sent, 100)
		if held {
			w = c
		}
		_, _ = w.Write(nil)
		w.WriteHeader(http.StatusInternalServerError)
		if held && c.Silent() {
			t.Error("the handler counts as silent")
		}
		c.Send()
		if sent.Code != http.StatusOK {
			t.Errorf("held back: %v: status %d, want that of net/http, 200", held, sent.Code)
		}
	}
}

// net/http panics for these, and a handler that panics records nothing.
func TestAStatusThatIsNonePanicsInTheHandler(t *testing.T) {
	for _, status := range []int{-1, 0, 99, 1000} {
		c := httpguard.NewCapture(httptest.NewRecorder(), 100)
		testguard.Panics(t, fmt.Sprint("status ", status), func() { c.WriteHeader(status) })
		if !c.Silent() {
			t.Errorf("status %d begins an answer", status)
		}
	}
}
