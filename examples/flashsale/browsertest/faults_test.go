package browsertest

import (
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// faults are what must not happen in any tab: an error in the console, or a
// request to elsewhere.
type faults struct {
	mu    sync.Mutex // guards found
	found []string
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, fmt.Sprintf(format, args...))
}

// hear is called with each event of a tab, and returns at once.
func (f *faults) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		f.add("exception: %s", text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			f.add("console: %v", e.Args)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			f.add("console: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || (u.Scheme != "data" && u.Scheme != "file" && u.Hostname() != "127.0.0.1") {
			f.add("request to %s", e.Request.URL)
		}
	}
}

func (f *faults) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.found {
		t.Error(fault)
	}
}
