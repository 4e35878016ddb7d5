package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The outage: calls come at a fixed rate, each with a key of its own, and the
// server is stopped for some time.
const (
	perSecond = 1000
	healthy   = 3 * time.Second
	stopped   = 10 * time.Second
	known     = 4 * time.Second // after the stop; MaxWait is 3 s, and a try takes up to 0.5 s
)

// called is one call.
type called struct {
	at, took time.Duration // since the start
	err      error
}

// sends counts the requests of its connections.
type sends struct {
	net.Conn
	n *atomic.Int64
}

func (s sends) Write(p []byte) (int, error) {
	s.n.Add(1)
	return s.Conn.Write(p)
}

func (b *bench) outage() error {
	server, err := b.lab.Start()
	if err != nil {
		return err
	}
	var sent atomic.Int64
	rdb := redis.NewClient(&redis.Options{
		Addr: server.Addr,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return sends{c, &sent}, err
		},
	})
	defer func() { _ = rdb.Close() }()
	g, err := guard.New(redislocker.New(rdb), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer func() { _ = g.Close(context.WithoutCancel(b.ctx)) }()

	start := time.Now()
	at := func(d time.Duration) { time.Sleep(time.Until(start.Add(d))) }
	var calls []called
	var most peaks
	over := make(chan struct{})
	var side sync.WaitGroup
	side.Go(func() { calls = load(b.ctx, g, start, over) })
	side.Go(func() { most.watch(start, over) })
	at(healthy)
	err = server.Stop()
	at(healthy + known)
	before := sent.Load()
	at(healthy + stopped)
	probes := sent.Load() - before
	err = errors.Join(err, server.Cont())
	back := time.Since(start)
	at(healthy + stopped + healthy)
	close(over)
	side.Wait()
	if err != nil {
		return err
	}
	b.tell(calls, most, probes, back)
	return nil
}

// load makes calls at the fixed rate until over is closed, and waits for them.
func load(ctx context.Context, g *guard.Guard, start time.Time, over <-chan struct{}) (all []called) {
	var mu sync.Mutex // guards all
	var open sync.WaitGroup
	for n := 0; ; n++ {
		select {
		case <-over:
			open.Wait()
			return all
		case <-time.After(time.Until(start.Add(time.Duration(n) * time.Second / perSecond))):
		}
		open.Go(func() {
			asked := time.Now()
			err := g.Do(ctx, guard.Key("own", n), func(context.Context) error { return nil })
			mu.Lock()
			defer mu.Unlock()
			all = append(all, called{asked.Sub(start), time.Since(asked), err})
		})
	}
}

// peaks are the highest numbers of goroutines, by when they were seen.
type peaks struct{ healthy, waiting, known int }

func (p *peaks) watch(start time.Time, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
		n, at := runtime.NumGoroutine(), time.Since(start)
		switch {
		case at < healthy:
			p.healthy = max(p.healthy, n)
		case at < healthy+known:
			p.waiting = max(p.waiting, n)
		case at < healthy+stopped:
			p.known = max(p.known, n)
		}
	}
}

// tell prints the figures of an outage that was over at back.
func (b *bench) tell(calls []called, most peaks, probes int64, back time.Duration) {
	var refusals, fine []time.Duration
	first, again := time.Duration(0), 0
	for _, c := range calls {
		switch end := c.at + c.took; {
		case c.at < healthy:
			fine = append(fine, c.took)
		case c.at > healthy+known && end < back && c.err != nil:
			refusals = append(refusals, c.took)
		case c.err == nil && end > back && (first == 0 || end < first):
			first = end
		}
		if c.at > back+time.Second/2 && c.err != nil {
			again++
		}
	}
	fmt.Fprintf(b.out, "\nserver stopped for %v, %d calls/s on keys of their own, MaxWait 3 s\n\n| | |\n|---|---|\n"+
		"| healthy: median and p99 of a call, ms | %.2f, %.2f |\n"+
		"| known: refusals; their median and p99, ms | %d; %.3f, %.3f |\n"+
		"| goroutines: healthy, until known, known | %d, %d, %d |\n"+
		"| requests/s while known | %.1f |\n"+
		"| back after, ms | %d |\n"+
		"| calls refused later than 0.5 s after that | %d |\n", stopped, perSecond,
		quantile(fine, 0.5), quantile(fine, 0.99), len(refusals), quantile(refusals, 0.5), quantile(refusals, 0.99),
		most.healthy, most.waiting, most.known, float64(probes)/(stopped-known).Seconds(),
		(first - back).Milliseconds(), again)
}
