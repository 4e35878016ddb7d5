package contest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/judge"
)

// plan is the plan of one call.
type plan struct {
	key      int
	wait     time.Duration
	work     time.Duration // in its section
	cancel   time.Duration // when it gives up waiting; 0 means never
	stubborn bool          // it goes on after it was told that its lease is lost
	probes   bool          // it asks the server how long its key lasts
	nested   bool          // it takes the key again in its section
	role     string
	cart     []int // the keys of a cart
}

// newPlan draws a random plan. Most sections are short, and a few in a thousand
// outlast the TTL.
func newPlan(rnd *rand.Rand, keys, long int, ttl time.Duration, roles []string) (p plan) {
	p.key = rnd.IntN(keys)
	waits := []time.Duration{
		0, 50 * time.Millisecond, 200 * time.Millisecond, time.Second,
		3 * time.Second, 3 * time.Second,
	}
	p.wait = waits[rnd.IntN(len(waits))]
	switch n := rnd.IntN(1000); {
	case n < long:
		p.work = ttl/2 + upTo(rnd, 2*ttl)
	case n < long+20:
		p.work = 10*time.Millisecond + upTo(rnd, 50*time.Millisecond)
	case n < 400:
		p.work = upTo(rnd, 3*time.Millisecond)
	}
	if rnd.IntN(10) == 0 {
		p.cancel = time.Millisecond + upTo(rnd, 800*time.Millisecond)
	}
	p.stubborn, p.probes, p.nested = rnd.IntN(20) == 0, rnd.IntN(10) == 0, rnd.IntN(20) == 0
	p.cast(rnd, roles, keys)
	return p
}

func upTo(rnd *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(most)))
}

// bound returns the max duration of the wait of p. A caller that leaves when
// the key comes releases it first.
func (p plan) bound(ttl time.Duration) time.Duration {
	bound := max(p.wait, judge.TryLimit(ttl))
	if p.cancel > 0 {
		bound = min(bound, p.cancel+judge.TryLimit(ttl)) + judge.ReleaseLimit(ttl)
	}
	return bound
}

// visit makes one call. An error means that the worker cannot go on.
func (w *Worker) visit(rnd *rand.Rand) error {
	p := newPlan(rnd, w.Keys, w.Long, w.TTL, w.Roles)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.cancel > 0 {
		defer time.AfterFunc(p.cancel, cancel).Stop()
	}
	rest := upTo(rnd, 10*time.Millisecond) // after a refusal: a server that is down refuses quickly
	switch p.role {
	case judge.Partition:
		p.key = w.part(rnd)
	case judge.Cart:
		return w.fill(ctx, p, rest)
	case judge.Once, judge.Payment:
		return w.ask(ctx, p, rnd, rest)
	}
	r := judge.Record{
		N: w.visits.Add(1), Key: p.key, Limit: p.limit(w.Proc), Bound: int64(p.bound(w.TTL)), Asked: judge.Now(),
	}
	lease, err := w.acquire(ctx, p)
	r.At = judge.Now()
	if err != nil {
		time.Sleep(rest)
		return w.refused(r, err)
	}
	return w.section(p, r, lease)
}

// section is a caller's time with its key.
type section struct {
	*Worker
	plan  plan
	lease Lease
	end   judge.Record
}

func (w *Worker) section(p plan, got judge.Record, lease Lease) error {
	s := &section{Worker: w, plan: p, lease: lease, end: judge.Record{Kind: judge.KindEnd, N: got.N, Key: got.Key}}
	token, err := lease.Token(context.Background())
	if err != nil && !errors.Is(err, ErrNoToken) {
		got.Err, s.end.Err = err.Error(), err.Error()
	}
	got.Kind, got.Token, got.Until = judge.KindGot, token, judge.Stamp(lease.Deadline())
	if err := w.Diary.Write(got); err != nil {
		return err
	}
	over := make(chan struct{})
	var ear sync.WaitGroup
	ear.Go(func() {
		select {
		case <-lease.Lost():
		case <-over: // maybe because it was lost
			if !s.told() {
				return
			}
		}
		s.end.Lost = judge.Now()
	})
	if s.holds() || p.stubborn {
		s.use(token)
	}
	close(over)
	ear.Wait()
	s.end.At, s.end.Until, s.end.Closing = judge.Now(), judge.Stamp(lease.Deadline()), w.closing.Load()
	if err := w.Diary.Write(s.end); err != nil {
		return err
	}
	if err := lease.Release(context.Background()); err != nil {
		return w.Diary.Write(judge.Record{
			Kind: judge.KindFreed, N: got.N, At: judge.Now(),
			Taken: errors.Is(err, guard.ErrLeaseLost), Err: err.Error(),
		})
	}
	return nil
}

// use takes the time of the section. One that is alone reads the store before
// and writes the value plus one after.
func (s *section) use(token uint64) {
	ctx := context.Background()
	if s.plan.limit(s.Proc) > 1 {
		s.stay(ctx)
		return
	}
	r, ok, err := s.Store.Read(ctx, s.plan.key, token)
	switch {
	case err != nil:
		s.end.Broken = true
		return
	case !ok:
		s.end.Refused = true
		return
	}
	held := s.stay(ctx)
	if stubborn := s.plan.stubborn && token > 0; !held && !stubborn {
		return
	}
	ok, err = s.Store.Write(ctx, s.plan.key, token, s.id(), r, held)
	s.end.Wrote, s.end.Refused, s.end.Broken = judge.Now(), !ok, err != nil
}

// stay takes the time of the section. It reports whether the lease was held to
// the end.
func (s *section) stay(ctx context.Context) (held bool) {
	if s.plan.nested {
		s.nest(ctx)
	}
	held = s.work(s.plan.work)
	if held && s.plan.probes {
		s.probe()
		held = s.holds()
	}
	return held
}

// nest takes the key of s again, if the library lets a holder do so. The inner
// call is a part of the turn of s. A refusal counts only if s held the key all
// the time, and was told of no loss: the key of a cart may be held when another
// of its keys is lost.
func (s *section) nest(ctx context.Context) {
	lease, ok := s.lease.(Reentrant)
	if !ok || !s.holds() {
		return
	}
	token, err := lease.Again(ctx)
	s.end.Inner = token
	s.end.Denied = errors.Is(err, guard.ErrNotAcquired) && !s.told() && s.holds()
}

// told reports whether the holder was told of a loss.
func (s *section) told() bool {
	select {
	case <-s.lease.Lost():
		return true
	default:
		return false
	}
}

// probe asks the server how long the key will last, if the key and the server
// are known.
func (s *section) probe() {
	if s.Probe == nil {
		return
	}
	until := judge.Stamp(s.lease.Deadline())
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	ms, err := s.Probe(ctx, s.plan.key)
	if err == nil {
		s.end.Probe = &judge.Probe{Until: until, At: judge.Now(), TTL: ms}
	}
}

func (s *section) id() string { return fmt.Sprintf("%d.%d.%d", s.Proc, s.Life, s.end.N) }

// work takes its time. It reports whether the lease was held to the end.
func (s *section) work(d time.Duration) bool {
	const step = 5 * time.Millisecond
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left > 0 {
			time.Sleep(min(left, step))
		}
		if held := s.holds(); left <= step || !held && !s.plan.stubborn {
			return held
		}
		select {
		case <-s.over:
			return s.holds()
		default:
		}
	}
}

// holds records a time at which the lease was held, which is the time before
// the look.
func (s *section) holds() bool {
	at := judge.Now()
	held := s.lease.Held()
	if held {
		s.end.Held = at
	}
	return held
}

// KeyName returns the name of a key.
func KeyName(key int) string { return guard.Key(fmt.Sprint("torture", key)) }
