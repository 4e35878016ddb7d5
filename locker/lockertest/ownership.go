package lockertest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard"
)

var ownership = []Check{
	{"a key has one owner", oneOwner},
	{"one contender at a time passes", oneAtATime},
	{"a lease expires at its TTL and not before", expires},
	{"a refusal tells who holds the key and how long", tellsHolder},
	{"an owner that acquires again has the full TTL again", acquiresAgain},
	{"keys are never mixed up", awkwardKeys},
}

func oneOwner(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	p.refused(p.a, claim("k", long))
	p.refused(p.b, claim("k", long))
	p.refused(p.b, resembling(c))

	other := claim("other", long)
	p.acquire(p.b, other)
	p.owns(p.a, c)
	p.owns(p.b, other)

	p.release(p.a, c)
	next := claim("k", long)
	p.acquire(p.b, next)
	p.owns(p.b, next)
	p.refused(p.a, c)
}

// resembling returns a claim whose owner differs from that of c in the last byte only.
func resembling(c *guard.Claim) *guard.Claim {
	d := claim(c.Key, c.TTL)
	last := "A"
	if strings.HasSuffix(c.Owner, last) {
		last = "B"
	}
	d.Owner = c.Owner[:guard.OwnerLen-1] + last
	return d
}

// oneAtATime lets goroutines on both lockers add to a counter in two steps, which loses counts unless they take turns.
// The steps are atomic by themselves only to keep the race detector out: it cannot see a lock on a server.
func oneAtATime(p *pair) {
	const each, rounds = 4, 8
	var counter atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 2*each)
	for _, l := range []guard.Locker{p.a, p.b} {
		for range each {
			wg.Go(func() { errs <- p.addSlowly(l, &counter, rounds) })
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			fail("%w", err)
		}
	}
	if got, want := counter.Load(), int64(2*each*rounds); got != want {
		fail("%d sections counted to %d: some ran at the same time", want, got)
	}
}

func (p *pair) addSlowly(l guard.Locker, counter *atomic.Int64, rounds int) error {
	for range rounds {
		c := claim("counter", long)
		for ; ; c.Tries++ {
			_, err := l.Acquire(p.ctx, c)
			if err == nil {
				break
			}
			if !errors.Is(err, guard.ErrNotAcquired) {
				return fmt.Errorf("Acquire of a contended key: %w", err)
			}
			pause()
		}
		n := counter.Load()
		time.Sleep(100 * time.Microsecond)
		counter.Store(n + 1)
		if _, err := l.Release(p.ctx, c); err != nil {
			return fmt.Errorf("Release of a contended key: %w", err)
		}
	}
	return nil
}

func expires(p *pair) {
	sent := time.Now()
	c := claim("k", short)
	p.acquire(p.a, c)
	next := p.eventually(p.b, "k", long)
	if lived := time.Since(sent); lived < short-rounding {
		fail("a lease with a TTL of %v was free for others after %v", short, lived)
	}
	p.refused(p.a, c)
	p.owns(p.b, next)
}

func tellsHolder(p *pair) {
	p.acquire(p.a, claim("k", long))
	p.acquire(p.b, claim("k2", long))

	held := p.refused(p.b, claim("k", long))
	if held.Key != "k" {
		fail("HeldError.Key is %q, want %q", held.Key, "k")
	}
	if held.Remaining <= 0 || held.Remaining > long {
		fail("HeldError.Remaining is %v, want more than 0 and at most the TTL, %v", held.Remaining, long)
	}
	got := held.Holder
	if d := got.Since.Sub(self.Since).Abs(); d > time.Millisecond {
		fail("HeldError.Holder.Since is %v, want %v", got.Since, self.Since)
	}
	byB := p.refused(p.a, claim("k2", long)).Holder.Instance
	if got.Instance == "" || got.Instance == byB {
		fail("HeldError.Holder.Instance is %q and, for the other locker, %q: want two ids", got.Instance, byB)
	}
	got.Since, got.Instance = self.Since, self.Instance
	if got != self {
		fail("HeldError.Holder is %+v, want %+v", got, self)
	}
}

func acquiresAgain(p *pair) {
	c := claim("k", long)
	p.acquire(p.a, c)
	time.Sleep(short)
	sent := time.Now()
	p.acquire(p.a, c)
	p.hasFullTTL("k", long, sent)
	p.refused(p.a, claim("k", long))

	p.release(p.a, c) // once is enough
	p.free("k")
}

// awkward keys differ in what a store may fold, cut, escape or use itself.
func awkward() []string {
	huge := strings.Repeat("x", 1<<20)
	return []string{
		"k", "K", "k ", " k", "k:wait", "k:fence", "k:", ":k", "k:k", "k%3Ak", "k%k", "k%25k", "k*", "k?", "k/k", `k\k`,
		"{k}", "{k}:fence", "k{", "}k{", "{}k", "{}", "{{k}}", "k\x00", "k\x00k", "k\n", "k\r\n", "k\tk", "\x7f",
		"\u00e9", "e\u0301", "ключ", "鍵", "🔑", "\xff\xfe", "\xff", "\ufffd",
		huge, huge + "x", huge + "y", "y" + huge,
	}
}

func awkwardKeys(p *pair) {
	var cs []*guard.Claim
	for _, key := range awkward() {
		c := fencedClaim(key, long)
		p.acquire(p.a, c)
		cs = append(cs, c)
	}
	for _, c := range cs {
		p.refused(p.b, claim(c.Key, long))
	}
	for _, c := range cs {
		p.release(p.a, c)
	}
	for _, c := range cs {
		p.free(c.Key)
	}
}
