package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// load is how requests come.
type load struct{ requests, atOnce int }

// measure sends the requests to instances with one kind of lock.
func measure(ctx context.Context, rdb *redis.Client, addr string, instances int, kind kind, load load,
) (*result, error) {
	if err := rdb.Del(ctx, sequence).Err(); err != nil {
		return nil, err
	}
	var urls []string
	for range instances {
		i, err := start(addr, kind)
		if err != nil {
			return nil, err
		}
		defer i.stop()
		urls = append(urls, i.server.URL)
	}
	before, err := commands(ctx, rdb)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	r, err := load.send(ctx, urls)
	if err != nil {
		return nil, err
	}
	r.rate = float64(load.requests) / time.Since(began).Seconds()
	after, err := commands(ctx, rdb)
	r.commands = after - before - 1 // without the question itself
	return r, err
}

// instance is one process of the service, but for its being one.
type instance struct {
	server *httptest.Server
	rdb    *redis.Client
	close  func()
}

func start(addr string, kind kind) (*instance, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	lock, closeLock, err := kind.open(rdb)
	if err != nil {
		return nil, err
	}
	return &instance{httptest.NewServer(lock(next(rdb))), rdb, closeLock}, nil
}

func (i *instance) stop() {
	i.server.Close()
	i.close()
	_ = i.rdb.Close()
}

const sequence = "ab:sequence"

// next answers with the next number. It reads the last one and writes the next,
// as code does that asks more than one server. INCR needs no lock.
func next(rdb *redis.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last, err := rdb.Get(r.Context(), sequence).Int()
		if err != nil && err != redis.Nil { //nolint:errorlint // never wrapped
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if err := rdb.Set(r.Context(), sequence, last+1, time.Hour).Err(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, last+1)
	})
}

// send sends the requests, in turn to each instance.
func (l load) send(ctx context.Context, urls []string) (*result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.atOnce}}
	defer client.CloseIdleConnections()
	r := &result{numbers: map[int]bool{}}
	var mu sync.Mutex // guards r
	work := make(chan string)
	var wg sync.WaitGroup
	for range l.atOnce {
		wg.Go(func() { // ends when work is closed
			for url := range work {
				began := time.Now()
				n, err := ask(ctx, client, url)
				if err != nil {
					cancel(err)
				}
				mu.Lock()
				r.took, r.numbers[n] = append(r.took, time.Since(began)), true
				mu.Unlock()
			}
		})
	}
	for i := range l.requests {
		work <- urls[i%len(urls)]
	}
	close(work)
	wg.Wait()
	return r, context.Cause(ctx)
}

// ask sends one request, and returns the number that it got.
func ask(ctx context.Context, client *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", resp.Status, body)
	}
	return strconv.Atoi(string(body))
}

// commands returns how many commands the server has run.
func commands(ctx context.Context, rdb *redis.Client) (int, error) {
	info, err := rdb.Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(info, "total_commands_processed:")
	number, _, _ := strings.Cut(after, "\r\n")
	return strconv.Atoi(number)
}
