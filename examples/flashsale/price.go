package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// quote is the answer of the price-and-risk service.
type quote struct {
	Cents int  `json:"cents"`
	Risky bool `json:"risky"`
}

// priceClient asks the price-and-risk service. Safe for concurrent use.
type priceClient struct {
	http     *http.Client
	base     string
	instance string // who asks, for the timeline
}

// ask returns the price of one item for this order. It blocks for one HTTP request, at most until ctx ends.
func (p *priceClient) ask(ctx context.Context, sku, order string) (cents int, err error) {
	query := url.Values{"sku": {sku}, "order": {order}, "instance": {p.instance}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/price?"+query.Encode(), http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("price service: %s", resp.Status)
	}
	var q quote
	if err := json.NewDecoder(resp.Body).Decode(&q); err != nil {
		return 0, fmt.Errorf("price service: %w", err)
	}
	if q.Risky {
		return 0, errors.New("price service: order refused as risky")
	}
	return q.Cents, nil
}

// priceService is the other side, in the parent process: it takes its time, and knows when an instance is in mid-step.
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

// hold keeps back the answer to one order: asked is closed when the question has come, answer lets the answer go.
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

// asker returns a channel that gets the name of the instance that asks next: it is in mid-step at that moment.
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
		pause(r.Context(), p.think)
	}
	p.spans.add(r.FormValue("instance"), began, time.Now(), markInStep)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(quote{Cents: 1999}) // an instance may have died
}

// pause waits for d, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
