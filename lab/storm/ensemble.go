//go:build unix

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard/internal/faultpipe"
)

// Server is one server of several that elect a leader.
type Server interface {
	Kill()
	Start(ctx context.Context) error
	Pause()
	Resume()
}

// ensemble is the place of servers of which one leads, with a pipe to each. It
// ends them.
func ensemble[S Server](ctx context.Context, p *Place, servers []S, address func(S) string,
	leads func(context.Context, S) bool,
) error {
	p.ending(func() {
		for _, s := range servers {
			s.Kill()
		}
	})
	p.Addresses = nil
	var pipes []*faultpipe.Lossy
	for _, s := range servers {
		pipe, err := faultpipe.OpenLossy(ctx, address(s))
		if err != nil {
			return err
		}
		p.ending(pipe.Close)
		pipes, p.Addresses = append(pipes, pipe), append(p.Addresses, pipe.Addr)
	}
	p.Faults = ensembleFaults(ctx, func() S {
		for _, s := range servers {
			if leads(ctx, s) {
				return s
			}
		}
		return servers[0] // it is not known
	}, pipes)
	return nil
}

func ensembleFaults[S Server](ctx context.Context, leader func() S, pipes []*faultpipe.Lossy) []Fault {
	return []Fault{
		{"leader killed", func(length time.Duration) error {
			l := leader()
			l.Kill()
			time.Sleep(length)
			return l.Start(ctx)
		}},
		{"leader stopped", func(length time.Duration) error {
			l := leader()
			l.Pause()
			time.Sleep(length)
			l.Resume()
			return nil
		}},
		{"cut off from one", func(length time.Duration) error {
			mend := pipes[rand.N(len(pipes))].Cut(rand.N(2) == 0, true)
			time.Sleep(length)
			mend()
			return nil
		}},
		{"cut off from all", func(length time.Duration) error {
			for _, p := range pipes {
				mend := p.Cut(true, true)
				defer mend()
			}
			time.Sleep(length)
			return nil
		}},
	}
}
