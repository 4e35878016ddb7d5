package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client pays. It repeats a request that got no answer, at the next instance
// and with the same key.
type client struct {
	addresses      []string
	header         bool
	http           http.Client
	sent, replayed atomic.Int64
}

func newClient(addresses []string, header bool) *client {
	return &client{addresses: addresses, header: header, http: http.Client{Timeout: 10 * time.Second}}
}

// callers is how many payments are under way at once.
const callers = 8

// payAll makes the payments, and returns the first error.
func (c *client) payAll(ctx context.Context, payments int) (err error) {
	orders := make(chan int)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for n := range orders {
				if err := c.pay(ctx, fmt.Sprint("order-", n)); err != nil {
					stop(err)
				}
			}
		})
	}
	for n := range payments {
		orders <- n
	}
	close(orders)
	wg.Wait()
	return context.Cause(ctx)
}

// maxTries is for a service that is really down.
const maxTries = 20

// pay makes one payment. The key belongs to it from its first try on. A real
// client keeps the key with the order, so that it survives a restart.
func (c *client) pay(ctx context.Context, order string) (err error) {
	key := rand.Text()
	for try := range maxTries {
		var again bool
		if again, err = c.send(ctx, c.addresses[try%len(c.addresses)], order, key); !again {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(try) * 10 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: no answer in %d tries: %w", order, maxTries, err)
}

// send sends one request. again reports whether to repeat it: after a broken
// connection, 409 and 5xx.
func (c *client) send(ctx context.Context, address, order, key string) (again bool, err error) {
	c.sent.Add(1)
	body := strings.NewReader(fmt.Sprintf(`{"order":%q}`, order))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/payments", body)
	if err != nil {
		return false, err
	}
	r.Header.Set("Authorization", "Bearer shop")
	r.Header.Set("Content-Type", "application/json")
	if c.header {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return true, err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return true, err
	}
	if answer.Header.Get("Idempotency-Replayed") != "" {
		c.replayed.Add(1)
	}
	switch {
	case answer.StatusCode == http.StatusCreated:
		return false, nil
	case answer.StatusCode == http.StatusConflict || answer.StatusCode >= 500:
		return true, fmt.Errorf("%s: %s", order, answer.Status)
	}
	return false, fmt.Errorf("%s: %s", order, answer.Status)
}
