package redislocker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// resource is the thing that a key protects, off the faulted path. It rejects
// fencing tokens that are lower than the last. Only overlaps can bring such
// tokens.
type resource struct {
	mu       sync.Mutex // guards the fields below
	inside   int
	tokens   tokens
	sections []time.Time
	overlaps int // sections that began before another had ended; a lost failover brings them, fencing repairs
	rejected int // overlaps that the resource refused
}

// section is one stay in the critical section.
func (r *resource) section(ctx context.Context, t *testing.T, process *guard.Guard) {
	t.Helper()
	token, err := guard.FencingToken(ctx)
	if err != nil {
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("no token: %v", err)
		}
		return
	}
	r.mu.Lock()
	r.inside++
	if r.inside > 1 {
		r.overlaps++
	}
	if token == r.tokens.last {
		t.Errorf("token %d was given twice", token)
	}
	switch lower, fell := r.tokens.next(process, token, time.Now()); {
	case fell:
		t.Errorf("token %d of a lease that began after token %d had come: it fell", token, r.tokens.last)
	case lower: // of a lease that overlaps another: the resource refuses it
		r.rejected++
	}
	r.sections = append(r.sections, time.Now())
	r.mu.Unlock()
	time.Sleep(time.Millisecond) // the work
	r.mu.Lock()
	r.inside--
	r.mu.Unlock()
}

// count is the number of sections so far.
func (r *resource) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sections)
}

// gap returns the longest time without a section since from, and the time when
// it ended.
func (r *resource) gap(from time.Time) (longest time.Duration, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, end, back := from, from, true
	for i, s := range append(slices.Clone(r.sections), time.Now()) {
		if s.After(from) {
			if s.Sub(at) > longest {
				longest, end, back = s.Sub(at), s, i < len(r.sections) || s.Sub(at) < time.Second
			}
			at = s
		}
	}
	text = fmt.Sprintf("%v until %v after the fault", longest.Round(time.Millisecond),
		end.Sub(from).Round(time.Millisecond))
	if !back {
		text = fmt.Sprintf("not back %v after the fault", end.Sub(from).Round(time.Millisecond))
	}
	return longest, text
}

// plain counts writes of go-redis alone with its defaults, for comparison.
type plain struct{ resource }

// crowd is a number of processes, as the store sees them, that want one key all
// the time. A plain client runs beside them.
type crowd struct {
	resource

	plain plain
	stop  func() // ends it and waits
}

const (
	busyMachine = time.Second / 2 // what other load may cost beyond what it costs go-redis alone

	hot      = "hot"
	crowdTTL = time.Minute // longer than a test waits, so who waits for it is late
)

// startCrowd starts a crowd of n. locker makes each locker. The crowd ends with
// the test.
func startCrowd(t *testing.T, n int, rdb redis.UniversalClient, locker func() *redislocker.Locker) *crowd {
	t.Helper()
	c := &crowd{}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var guards []*guard.Guard
	for range n {
		g, err := guard.New(locker(), guard.WithFencing(), guard.WithTTL(crowdTTL), guard.WithMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, g)
		for range n {
			running.Go(func() { // ends with ctx
				for ctx.Err() == nil {
					err := g.Do(ctx, hot, func(ctx context.Context) error { c.section(ctx, t, g); return nil })
					if err != nil { // a server that is down refuses at once
						time.Sleep(5 * time.Millisecond)
					}
				}
			})
		}
	}
	running.Go(func() { // ends with ctx
		for ctx.Err() == nil {
			if rdb.Set(ctx, "guard:{"+hot+"}:plain", 1, time.Second).Err() == nil {
				c.plain.mu.Lock()
				c.plain.sections = append(c.plain.sections, time.Now())
				c.plain.mu.Unlock()
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	c.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		for _, g := range guards {
			if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
	t.Cleanup(c.stop)
	eventually(t, "the crowd is busy", func() bool { return c.count() > 100 })
	return c
}

// survives takes the crowd through a fault, after which the key comes back
// before its TTL. fault returns when there is a new primary. From then on a
// second may pass, and as long as go-redis alone takes: the long form checks
// that. A fault that loses no write brings no overlap either.
func (c *crowd) survives(t *testing.T, lossless bool, fault func() error) {
	t.Helper()
	began := time.Now()
	if err := fault(); err != nil {
		t.Fatal(err)
	}
	over, before := time.Since(began), c.count()
	eventually(t, "the crowd is busy again", func() bool { return c.count() > before+100 })
	time.Sleep(testsize.Pick(10*time.Second, 0)) // for gaps that come later
	c.stop()
	gap, text := c.gap(began)
	alone, aloneText := c.plain.gap(began)
	t.Logf("new primary after %v; longest gap %s; go-redis alone %s; %d sections, %d overlaps, %d rejected by token",
		over.Round(time.Millisecond), text, aloneText, c.count(), c.overlaps, c.rejected)
	if lossless && c.overlaps+c.rejected > 0 {
		t.Errorf("%d sections overlapped and %d tokens fell though no write was lost", c.overlaps, c.rejected)
	}
	most := max(over, min(alone, 5*time.Second)) + time.Second + busyMachine
	if testsize.Pick(gap > most, false) {
		t.Errorf("the hot key had no section for %v, want at most %v: a second after go-redis alone", gap, most)
	}
}

// leftNothing checks that none of these servers keeps a key without a TTL. It
// also checks that the lockers have left no connection.
func leftNothing(t *testing.T, nodes []*redisproc.Server) {
	t.Helper()
	for _, n := range nodes {
		keys, err := n.Do(t.Context(), "keys", "*").StringSlice()
		if err != nil {
			continue // it was killed
		}
		for _, k := range keys {
			if ms, _ := n.Do(t.Context(), "pttl", k).Int(); ms == -1 {
				t.Errorf("%s has key %q without a TTL", n.Addr, k)
			}
		}
		eventually(t, "no connection of a locker is left", func() bool {
			list, err := n.Do(t.Context(), "client", "list").Text()
			return err == nil && !clientNamed.MatchString(list)
		})
	}
}

// dialsEnd waits at the end of t for goroutines of go-redis. They try once a
// second to reach a dead server. Each ends within that second after its client
// was closed.
func dialsEnd(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		eventually(t, "nobody dials a dead server", func() bool {
			stacks := make([]byte, 1<<20)
			return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(".tryDial("))
		})
	})
}

var clientNamed = regexp.MustCompile(`(?m) name=guard `)
