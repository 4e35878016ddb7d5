package show

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
)

// priceService is the other side, in the parent process: it takes its time, and
// knows when an instance is in mid-step.
type priceService struct {
	url   string
	think time.Duration
	spans *timeline // nil: nobody looks
	srv   *http.Server

	mu   sync.Mutex // guards what follows; not held while a call waits
	held map[string]*heldCall
	next chan string // gets the name of the instance that asks next; nil: nobody wants to know
}

// heldCall is a call whose answer waits for a word from the parent.
type heldCall struct {
	asked  chan struct{} // closed by the service when the question has come
	answer chan struct{} // closed by the parent
}

func startPriceService(ctx context.Context, think time.Duration, spans *timeline) (*priceService, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("price service: %w", err)
	}
	p := &priceService{url: "http://" + l.Addr().String(), think: think, spans: spans, held: map[string]*heldCall{}}
	p.srv = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.srv.Serve(l) }() // ends with close
	return p, nil
}

// close ends the service and every call to it.
func (p *priceService) close() { p.srv.Close() }

// hold keeps back the answer to one order: asked is closed when the question
// has come, answer lets the answer go.
func (p *priceService) hold(order string) (asked <-chan struct{}, answer func()) {
	h := &heldCall{asked: make(chan struct{}), answer: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[order] = h
	return h.asked, sync.OnceFunc(func() { close(h.answer) })
}

// takeHeld returns the order's held call, once.
func (p *priceService) takeHeld(order string) *heldCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[order]
	delete(p.held, order)
	return h
}

// asker returns a channel that gets the name of the instance that asks next: it
// is in mid-step at that moment.
func (p *priceService) asker() <-chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = make(chan string, 1)
	return p.next
}

func (p *priceService) tellAsker(instance string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil {
		p.next <- instance // has room
		p.next = nil
	}
}

func (p *priceService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	p.tellAsker(r.FormValue("instance"))
	if h := p.takeHeld(r.FormValue("order")); h != nil {
		close(h.asked)
		select {
		case <-h.answer:
		case <-r.Context().Done():
		}
	} else {
		shop.Pause(r.Context(), p.think)
	}
	p.spans.add(r.FormValue("instance"), began, time.Now(), markInStep)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shop.Quote{Cents: 1999}) // an instance may have died
}
