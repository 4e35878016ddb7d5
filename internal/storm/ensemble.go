//go:build unix

package storm

import (
	"context"
	"math/rand/v2"
	"time"
)

// Server is one server of several that elect a leader.
type Server interface {
	Kill()
	Start(ctx context.Context) error
	Pause()
	Resume()
}

// Pipe is a network to a server. It loses what its Cut names until mend.
type Pipe interface {
	Cut(requests, answers bool) (mend func())
}

// EnsembleFaults returns the faults of servers of which one leads, and of the
// pipes to them.
func EnsembleFaults[S Server, P Pipe](ctx context.Context, leader func(context.Context) S, pipes []P) []Fault {
	return []Fault{
		{"leader killed", func(length time.Duration) error {
			l := leader(ctx)
			l.Kill()
			time.Sleep(length)
			return l.Start(ctx)
		}},
		{"leader stopped", func(length time.Duration) error {
			l := leader(ctx)
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
