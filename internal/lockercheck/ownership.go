package lockercheck

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var ownership = []Check{
	{"a key has one owner", "Locker.Acquire", oneOwner},
	{"a lease expires at its TTL and not before", "law 1", expires},
	{"a lease ends no later than the store says", "Limits.Late, Limits.LateForOthers", endsInTime},
	{"a refusal tells who holds the key and how long", "Answer", tellsHolder},
	{"an owner that acquires again has the full TTL again", "Locker.Acquire", acquiresAgain},
	{"keys are never mixed up", "Claim.Key", awkwardKeys},
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

	p.release(p.a, c, nil)
	next := claim("k", long)
	p.acquire(p.b, next)
	p.owns(p.b, next)
	p.refused(p.a, c)
}

// resembling returns a claim whose owner differs from the owner of c in the
// last byte only.
func resembling(c *locker.Claim) *locker.Claim {
	d := claim(c.Key, c.TTL)
	last := "A"
	if strings.HasSuffix(c.Owner, last) {
		last = "B"
	}
	d.Owner = c.Owner[:locker.OwnerLen-1] + last
	return d
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

// endsInTime checks that the key of a dead holder is free as soon as the store
// says. It does so for a process that keeps trying, and for one that has never
// tried. It counts from when a request was sent, so a slow request does no
// harm. A store whose processes measure a lease from their first look may be
// late by as much as that look was.
func endsInTime(p *pair) {
	ttl := max(short, p.can.Limits.MinTTL)
	step := max(p.can.Limits.Step, time.Millisecond)
	ttl = (ttl + step - 1).Truncate(step)
	p.rounds(func(key string) error {
		waited, passed := key, key+" passed"
		p.acquire(p.a, claim(waited, ttl))
		p.acquire(p.a, claim(passed, ttl))
		first := time.Now()
		var slow error
		for last := first; ; {
			sent := time.Now()
			if sent.Sub(last) > short/2 {
				slow = errStood
			}
			last = sent
			if p.try(p.b, claim(waited, long), locker.Try{}).Acquired {
				break
			}
			if late := sent.Sub(first) - ttl; late > p.can.Limits.Late+rounding {
				return orFail(slow, "a lease with a TTL of %v keeps a key from others %v after it has ended, "+
					"want %v at most", ttl, late, p.can.Limits.Late)
			}
			time.Sleep(short / 8)
		}
		slow = errors.Join(slow, sleep(time.Until(first.Add(ttl+p.can.Limits.LateForOthers+rounding))))
		if p.try(p.b, claim(passed, long), locker.Try{}).Acquired {
			return nil
		}
		return orFail(slow, "a lease with a TTL of %v keeps a key from who has not tried before, %v after it has "+
			"ended, want %v at most",
			ttl, time.Since(first)-ttl, p.can.Limits.LateForOthers)
	})
}

// tellsHolder allows a store not to know the holder of a key, or how long the
// lease lasts. It does not allow a wrong answer.
func tellsHolder(p *pair) {
	p.acquire(p.a, claim("k", long))
	p.acquire(p.b, claim("k2", long))

	asks := claim("k", long)
	asks.Holder.Name = "lockertest: who asks"
	held := p.refused(p.b, asks)
	if held.Remaining < 0 || held.Remaining > long {
		fail("Answer.Remaining is %v, want at most the TTL, %v, or 0 if it cannot be known", held.Remaining, long)
	}
	got := held.Holder
	if got == (locker.Holder{}) {
		return
	}
	if d := got.Since.Sub(self.Since).Abs(); d > time.Millisecond {
		fail("Answer.Holder.Since is %v, want %v", got.Since, self.Since)
	}
	byB := p.refused(p.a, claim("k2", long)).Holder.Instance
	if got.Instance == "" || got.Instance == byB {
		fail("Answer.Holder.Instance is %q and, for the other locker, %q: want two ids", got.Instance, byB)
	}
	for _, f := range []struct{ name, got, want string }{
		{"Host", got.Host, self.Host},
		{"PID", strconv.Itoa(got.PID), strconv.Itoa(self.PID)},
		{"Name", got.Name, self.Name},
		{"Traceparent", got.Traceparent, self.Traceparent},
	} {
		if f.got != f.want {
			fail("Answer.Holder.%s is %q, want %q", f.name, f.got, f.want)
		}
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

	p.release(p.a, c, nil) // once is enough
	p.free("k")
}

// awkward returns keys that a guard may make. They differ in what a store may
// fold, trim, cut, unescape or use itself.
func awkward() []string {
	longest := strings.Repeat("x", locker.MaxKey-1)
	return []string{
		"k", "K", "k ", " k", " ", "k:wait", "k:fence", "k:", ":k", ":", "k:k", "k:k:wait", "k%3Ak", "k%253Ak", "k%25k",
		"%7Bk%7D", "%7bk%7d", "%257Bk%257D", "k%00", "k%00k", "k%0A", "k%0D%0A", "%sha256:k", "k%sha256:k", "sha256:k",
		"k*", "k?", "[k]", "k/k", "/", "..", `k\k`, "k'k", `k"k`, "k;k", "k,k", "k=k", "0", "00", "nil", "guard:k",
		"\u00e9", "e\u0301", "ключ", "鍵", "🔑", "\u00a0", "\u200b", "\xff\xfe", "\xff", "\ufffd", "k\x80",
		longest + "x", longest + "y", "y" + longest, longest,
	}
}

func awkwardKeys(p *pair) {
	var cs []*locker.Claim
	for _, key := range awkward() {
		c := fencedClaim(key, 3*long) // there are many
		p.acquire(p.a, c)
		cs = append(cs, c)
	}
	for _, c := range cs {
		p.refused(p.b, claim(c.Key, long))
	}
	for _, c := range cs {
		p.release(p.a, c, nil)
	}
	for _, c := range cs {
		p.free(c.Key)
	}
}
