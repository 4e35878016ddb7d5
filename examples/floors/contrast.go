package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
	lockmw "github.com/go-lockguard/guard/middleware/echo"
)

// showContrast sends a crowd to two instances without the lock, and one to two
// instances with it. Redis is embedded.
func showContrast(w io.Writer) error {
	const comments = 40
	for _, locked := range []bool{false, true} {
		floors, err := contrast(comments, locked)
		if err != nil {
			return err
		}
		different := len(slices.Compact(slices.Clone(floors)))
		fmt.Fprintf(w, "lock: %-5t  %d comments got %d different floors: %v\n", locked, comments, different, floors)
	}
	return nil
}

// contrast returns the floors, sorted, of n comments on one post that arrive at
// the same moment.
func contrast(n int, locked bool) (floors []int, err error) {
	store, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var urls []string
	for range 2 {
		at, stop, err := instance(store.Addr(), locked)
		if err != nil {
			return nil, err
		}
		defer stop()
		urls = append(urls, at)
	}
	return crowd(n, urls)
}

// instance serves the app at a free port of this machine until stop is called.
func instance(redisAddr string, locked bool) (at string, stop func(), err error) {
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	g, err := guard.New(redislocker.New(rdb), guard.WithMaxWait(time.Minute))
	if err != nil {
		return "", nil, errors.Join(err, rdb.Close())
	}
	var lock []echo.MiddlewareFunc
	if locked {
		lock = append(lock, lockmw.Key(g, postKey))
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, g.Close(context.Background()), rdb.Close())
	}
	srv := &http.Server{Handler: app(comments{rdb}, lock...), ReadTimeout: time.Second}
	done := make(chan struct{}) // closed when the server has ended
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends with stop
	}()
	return "http://" + l.Addr().String(), func() {
		ctx := context.Background()
		_ = errors.Join(srv.Close(), g.Close(ctx), rdb.Close())
		<-done
	}, nil
}

// crowd sends n comments at the same moment, round robin over the instances,
// and returns the floors that they got, sorted.
func crowd(n int, instances []string) ([]int, error) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	floors, errs := make([]int, n), make([]error, n)
	start := make(chan struct{}) // closed when all are ready
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			path := []string{"/posts/7/comments", "/posts/007/comments"}[i%2] // the same post
			floors[i], errs[i] = comment(client, instances[i%len(instances)]+path, "hello")
		})
	}
	close(start)
	wg.Wait()
	slices.Sort(floors)
	return floors, errors.Join(errs...)
}

// comment posts one comment and returns its floor.
func comment(client *http.Client, at, text string) (floor int, err error) {
	form := strings.NewReader(url.Values{"text": {text}}.Encode())
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, at, form)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return 0, fmt.Errorf("%s answers %s", at, resp.Status)
	}
	var answer struct{ Floor int }
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Floor, err
}
