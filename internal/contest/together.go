package contest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/judge"
)

// Notes is a [Diary] in memory.
type Notes struct {
	mu  sync.Mutex // guards all
	all []judge.Record
}

// Write implements [Diary].
func (n *Notes) Write(r judge.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, r)
	return nil
}

// Records returns what was written so far.
func (n *Notes) Records() []judge.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// Together lets workers of this process compete for d, without faults, and
// judges them by r. It sets their Store, Diary and places. It blocks until all
// have ended. If ctx ends they end early.
func Together(ctx context.Context, workers []*Worker, d time.Duration, r judge.Run) *judge.Verdict {
	store, notes := &Memory{}, make([]*Notes, len(workers))
	p := judge.Past{Complete: true, Lives: make([]judge.Life, len(workers))}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	r.Calm = judge.Now()
	var all sync.WaitGroup
	for i, w := range workers {
		notes[i] = &Notes{}
		w.Proc, w.Life, w.Store, w.Diary = i, 1, store, notes[i]
		w.Prepare()
		all.Go(func() {
			l := &p.Lives[i]
			l.Proc, l.Number, l.TTL, l.From = i, 1, w.TTL, judge.Now()
			if err := w.Run(ctx.Done(), func() error { return nil }); err != nil {
				l.Failure = err.Error()
			}
			l.To = judge.Now()
		})
		p.Most = max(p.Most, w.TTL)
	}
	<-ctx.Done()
	r.To, r.Most = judge.Now(), p.Most
	all.Wait()
	for i := range workers {
		p.Lives[i].Records = notes[i].Records()
	}
	for key := range workers[0].Keys {
		p.Log = append(p.Log, store.Log(key))
	}
	return r.Judge(judge.NewHistory(p))
}
