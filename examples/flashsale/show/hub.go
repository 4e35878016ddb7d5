package show

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Limits of the pages that look on.
const (
	maxTabs   = 256              // streams at once
	heartbeat = 15 * time.Second // so that a tab that has gone is noticed
)

// hub keeps every message of the run on stage, for pages that come late: the
// first one resets a page, and the rest bring it up to date. Nothing waits for
// a page: each stream has a goroutine of its own that reads on at its own pace,
// and a page that does not read is dropped. Safe for concurrent use.
type hub struct {
	patience time.Duration // with a tab that does not read

	mu    sync.Mutex // guards what follows; not held across I/O
	run   int        // counts begins
	log   []json.RawMessage
	more  chan struct{} // closed when there is more to read
	ended bool
	tabs  int
}

func newHub() *hub { return &hub{patience: 5 * time.Second, more: make(chan struct{})} }

// begin forgets the last run.
func (h *hub) begin(first any) { h.put(first, true) }

// publish adds a message.
func (h *hub) publish(m any) { h.put(m, false) }

func (h *hub) put(m any, fresh bool) {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // a message of ours that is no JSON
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if fresh {
		h.run++
		h.log = nil
	}
	h.log = append(h.log, text)
	h.wake()
}

// end lets every stream end once it has sent what there is.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.wake()
}

// wake tells all streams to look. The caller holds the mutex.
func (h *hub) wake() {
	close(h.more)
	h.more = make(chan struct{})
}

// place is how far a page has read.
type place struct{ run, at int }

// read returns what a page at p has not seen, where it is then, and how it
// learns of more.
func (h *hub) read(p place) (unseen []json.RawMessage, next place, more <-chan struct{}, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.run != h.run {
		p = place{run: h.run}
	}
	return slices.Clone(h.log[p.at:]), place{h.run, len(h.log)}, h.more, h.ended
}

// messages returns all of the run on stage.
func (h *hub) messages() []json.RawMessage {
	all, _, _, _ := h.read(place{})
	return all
}

// enter counts a stream, and reports false if there are too many.
func (h *hub) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tabs == maxTabs {
		return false
	}
	h.tabs++
	return true
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tabs--
}

// ServeHTTP streams the run to one page, as server-sent events.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.enter() {
		http.Error(w, fmt.Sprintf("%d pages look on already: close some", maxTabs), http.StatusServiceUnavailable)
		return
	}
	defer h.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()

	var at place
	for {
		unseen, next, more, ended := h.read(at)
		at = next
		if h.send(w, out, unseen) != nil || out.Flush() != nil {
			return // it has gone, or does not read
		}
		if ended {
			return
		}
		select {
		case <-more:
		case <-beat.C:
			if out.SetWriteDeadline(time.Now().Add(h.patience)) != nil {
				return
			}
			if _, err := fmt.Fprint(w, ":\n\n"); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// send gives the page some time for each message.
func (h *hub) send(w http.ResponseWriter, out *http.ResponseController, messages []json.RawMessage) error {
	for _, m := range messages {
		if err := out.SetWriteDeadline(time.Now().Add(h.patience)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", m); err != nil {
			return err
		}
	}
	return nil
}
