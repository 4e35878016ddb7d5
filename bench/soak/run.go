package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-lockguard/guard/bench/internal/host"
)

// runAll is a whole run. An error says that there was none.
func runAll(ctx context.Context, cfg config, progress io.Writer) (*book, error) {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	srv, err := host.StartServer(serverCtx, dir)
	if err != nil {
		return nil, err
	}
	defer srv.Stop()
	file, remove, err := host.TempFile(dir)
	if err != nil {
		return nil, err
	}
	defer remove()
	a, unmap, err := host.Share[arena](file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unmap() }()
	for i := range a.counts {
		a.counts[i].value.Store(1)
	}
	b := newBook(cfg, a)
	c := &crew{cfg: cfg, file: file, book: b}
	for range cfg.procs {
		p, err := newProxy(serverCtx, srv.Addr)
		if err != nil {
			return nil, err
		}
		defer p.close()
		c.proxies = append(c.proxies, p)
	}
	if err := c.startAll(); err != nil {
		return nil, err
	}
	n := &nemesis{cfg: cfg, crew: c, book: b, server: srv, rdb: srv.Client}
	stopReading := b.read()
	soak(ctx, n, progress)
	c.endAll()
	stopReading()
	b.turns, b.took = a.turns.Load(), time.Since(b.began)
	b.settle(now())
	b.leftovers(ctx, n)
	return b, nil
}

// soak lets workers and nemesis go on until the run has its turns, or is over for another reason.
func soak(ctx context.Context, n *nemesis, progress io.Writer) {
	if n.cfg.most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.cfg.most)
		defer cancel()
	}
	harmCtx, calm := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		n.run(harmCtx)
		close(over)
	}()
	defer func() { <-over }()
	defer calm()

	check, tell := time.NewTicker(time.Second), time.NewTicker(10*time.Second)
	defer check.Stop()
	defer tell.Stop()
	turns := time.NewTicker(10 * time.Millisecond)
	defer turns.Stop()
	for n.book.arena.turns.Load() < n.cfg.turns {
		select {
		case <-turns.C:
		case <-ctx.Done():
			return
		case <-check.C:
			n.crew.replaceDead()
			n.book.settle(now() - int64(n.cfg.longest()))
			if n.cfg.mutant != "none" && n.book.violated() > 0 {
				return
			}
		case <-tell.C:
			n.book.progress(progress)
		}
	}
}

// leftovers looks for what no run may leave in the store.
func (b *book) leftovers(ctx context.Context, n *nemesis) {
	keys := n.rdb.Scan(ctx, 0, "*", 1000)
	for it := keys.Iterator(); it.Next(ctx); {
		if n.rdb.PTTL(ctx, it.Val()).Val() == -1 {
			b.violation("leftover", "%s has no TTL", it.Val())
		}
	}
}

func (b *book) progress(w io.Writer) {
	b.mu.Lock()
	faults := len(b.faults)
	b.mu.Unlock()
	fmt.Fprintf(w, "%v: %d turns, %d faults, %d violations\n",
		time.Since(b.began).Round(time.Second), b.arena.turns.Load(), faults, b.violated())
}
