package lockercheck

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The answers of a locker that keeps records. For other lockers these checks
// are skipped.
var recording = []Check{
	{"a record is found in place of the key", "law 11", findsRecord},
	{"only the owner of a key keeps a record", "law 11", keepsForOwner},
	{"a lease that has ended keeps no record", "law 11", keepsForLive},
	{"a release with a record may be repeated", "law 11", keepsAgain},
	{"claims that recall leave the queue when there is a record", "law 11", leavesForRecord},
	{"other claims are served when there is a record", "law 11", servesOthers},
	{"a release without a record hands the key to a claim that recalls", "laws 5 and 7", servesRecalling},
	{"a claim that recalls may want tokens", "Claim.Fencing", recallsFenced},
	{"a claim that recalls owns its key alone", "law 9", recallsAlone},
	{"a record ends by its TTL", "law 11", recordEnds},
	{"a record that was forgotten is not found", "Recorder.Forget", forgetsRecord},
	{"a record is any bytes, and up to MaxRecord of them", "Record.Value", keepsBytes},
}

// recorder returns the locker of s. If it keeps no records, recorder ends the
// check as skipped.
func (p *pair) recorder(s *side) locker.Locker {
	needs(p.can.Records, "Records")
	return s.Locker
}

// recalling makes a claim that recalls.
func recalling(key string, ttl time.Duration) *locker.Claim {
	c := claim(key, ttl)
	c.Recall = true
	return c
}

// keep keeps a record of c, which must succeed.
func (p *pair) keep(s *side, c, next *locker.Claim, r locker.Record) locker.Released {
	if next != nil {
		p.note(s, next)
	}
	return p.end(s, c, locker.End{Next: next, Record: r})
}

// wantKeepLost keeps a record of c, which must not own its key.
func (p *pair) wantKeepLost(what string, s *side, c *locker.Claim, r locker.Record) {
	_, err := s.Release(p.ctx, c, locker.End{Record: r})
	wantLost("Release with a record by "+what, err)
}

// records acquires key, and keeps value as its record.
func (p *pair) records(s *side, key, value string) {
	c := recalling(key, long)
	p.acquire(s, c)
	p.keep(s, c, nil, locker.Record{Value: value, TTL: long})
}

// found says that an answer has this record.
func found(record string) func(locker.Answer) bool {
	return func(a locker.Answer) bool { return a.Record == record }
}

// forgets checks whether there is a record to forget.
func (p *pair) forgets(s *side, key string, want bool) {
	var found bool
	var err error
	comesTrue(p.lag(), func() bool {
		found, err = p.recorder(s).Forget(p.ctx, key)
		return err != nil || found || !want
	})
	if found != want || err != nil {
		fail("Forget: %v, %v, want %v", found, err, want)
	}
}

// finds checks that claims that recall find value as the record of key, or
// acquire the key if value is "".
func (p *pair) finds(key, value string) {
	p.recorder(p.a)
	for _, s := range []*side{p.a, p.b} {
		for _, t := range []locker.Try{{}, {Wait: true}, {Wait: true, Held: true}} {
			c := recalling(key, long)
			a := p.settled(s, c, t, func(a locker.Answer) bool {
				return a.Acquired || value != "" && a.Record == value
			})
			switch {
			case value == "" && a.Acquired:
				p.release(s, c, nil)
			case value == "":
				fail("Acquire of a key without a record: refused or answered by %d bytes, want success", len(a.Record))
			case a.Acquired, a.Queued, a.Record != value:
				fail("Acquire of a key with a record: Acquired %v, Queued %v, %d bytes, "+
					"want the record of %d bytes alone",
					a.Acquired, a.Queued, len(a.Record), len(value))
			}
		}
	}
}

func findsRecord(p *pair) {
	p.finds("k", "")
	p.records(p.a, "k", "one")
	p.finds("k", "one")
	p.finds("another", "")
	plain := claim("k", long)
	if a := p.settled(p.b, plain, locker.Try{}, acquired); !a.Acquired || a.Record != "" {
		fail("Acquire by a claim that does not recall, beside a record: %+v, want the key", a)
	}
	p.finds("k", "one")
	p.owns(p.b, plain)
	p.release(p.b, plain, nil)
	p.finds("k", "one")
}

func keepsForOwner(p *pair) {
	p.recorder(p.a)
	r := locker.Record{Value: "late", TTL: long}
	stranger := recalling("k", long)
	p.wantKeepLost("a claim that was never acquired", p.a, stranger, r)
	p.finds("k", "")
	owner := recalling("k", long)
	p.acquire(p.b, owner)
	p.wantKeepLost("a claim beside the owner", p.a, stranger, r)
	p.owns(p.b, owner)
	p.release(p.b, owner, nil)
	p.wantKeepLost("a claim that released its key", p.b, owner, r)
	p.finds("k", "")
	p.records(p.a, "k", "first")
	p.wantKeepLost("a claim beside a record", p.b, owner, r)
	p.finds("k", "first")
}

func keepsForLive(p *pair) {
	p.recorder(p.a)
	dead := recalling("k", short)
	p.try(p.a, dead, locker.Try{})
	p.release(p.b, p.eventually(p.b, "k", long), nil)
	p.wantKeepLost("a claim whose lease has ended", p.a, dead, locker.Record{Value: "late", TTL: long})
	p.finds("k", "")
}

func keepsAgain(p *pair) {
	p.recorder(p.a)
	c, r := recalling("k", long), locker.Record{Value: "one", TTL: long}
	p.acquire(p.a, c)
	p.keep(p.a, c, nil, r)
	p.keep(p.a, c, nil, r)
	other := claim("k", long)
	p.acquire(p.b, other)
	p.keep(p.a, c, nil, r)
	p.owns(p.b, other)
	p.a.giveUp(c, locker.End{}, false)
	p.closed(p.a)
	p.has(p.b, other)
	if a := p.settled(p.b, recalling("k", long), locker.Try{}, found(r.Value)); a.Record != r.Value {
		fail("Acquire after a second Release with a record: %+v, want the record", a)
	}
}

func leavesForRecord(p *pair) {
	p.recorder(p.a)
	p.rounds(func(key string) error {
		if err := p.hear(key + " too"); err != nil {
			return err
		}
		owner, waiting, other := recalling(key, long), recalling(key, long), recalling(key, long)
		p.acquire(p.a, owner)
		if err := p.wait(p.b, waiting); err != nil {
			return err
		}
		p.hasNot(p.b, waiting)
		released := p.keep(p.a, owner, nil, locker.Record{Value: "one", TTL: long})
		if released.Handed {
			fail("Release with a record handed the key to a claim that recalls: %+v", released)
		}
		p.hasNot(p.b, waiting)
		told, err := p.toldOfRecord(p.b, waiting)
		if err != nil {
			return err
		}
		if told != "" && told != "one" {
			fail("Recorded tells of the record %q, want %q or nothing", told, "one")
		}
		for _, c := range []*locker.Claim{waiting, other} {
			if a := p.settled(p.b, c, locker.Try{Wait: true, Queued: c == waiting}, found("one")); a.Record != "one" ||
				a.Queued {
				fail("Acquire by a claim that recalls, after a Release with a record: %+v, want the record", a)
			}
		}
		p.free(key)
		return nil
	})
}

// toldOfRecord waits until the process of c is told of a record.
func (p *pair) toldOfRecord(s *side, c *locker.Claim) (value string, err error) {
	for start := time.Now(); time.Since(start) < p.hearing; pause() {
		if key, value, ok := s.ear.keptFor(c); ok {
			if key != c.Key {
				fail("Recorded tells of key %q to the owner of a claim on %q", key, c.Key)
			}
			return value, nil
		}
	}
	return "", fmt.Errorf("the process of a claim that left the queue is not told of the record; %s", p.saw(c.Key))
}

func servesOthers(p *pair) {
	p.recorder(p.a)
	p.rounds(func(key string) error {
		owner, recalls, plain, next := recalling(key, long), recalling(key, long), claim(key, long), claim(key, long)
		p.acquire(p.a, owner)
		if err := p.wait(p.b, recalls, plain); err != nil {
			return err
		}
		p.keep(p.a, owner, next, locker.Record{Value: "one", TTL: long})
		if err := p.gets(p.b, plain); err != nil {
			return err
		}
		p.hasNot(p.b, recalls)
		if a := p.settled(p.b, recalls, locker.Try{Wait: true, Queued: true}, found("one")); a.Record != "one" {
			fail("Acquire by a claim that recalls, behind a Release with a record: %+v, want the record", a)
		}
		p.release(p.b, plain, nil)
		return p.gets(p.a, next)
	})
}

func servesRecalling(p *pair) {
	p.recorder(p.a)
	p.rounds(func(key string) error {
		owner, first, last := recalling(key, long), recalling(key, long), claim(key, long)
		p.acquire(p.a, owner)
		if err := p.wait(p.b, first, last); err != nil {
			return err
		}
		p.release(p.a, owner, nil)
		if err := p.gets(p.b, first); err != nil {
			return err
		}
		p.hasNot(p.b, last)
		p.keep(p.b, first, nil, locker.Record{Value: "one", TTL: long})
		return p.gets(p.b, last)
	})
}

func recallsFenced(p *pair) {
	p.recorder(p.a)
	var last uint64
	for _, s := range []*side{p.a, p.b, p.a} {
		c := recalling("k", long)
		c.Fencing = true
		token := p.acquire(s, c)
		if token <= last {
			fail("Acquire by a claim that recalls gives token %d after %d, want a higher one", token, last)
		}
		last = token + locker.FenceBlock - 1
		p.release(s, c, nil)
	}
}

func recallsAlone(p *pair) {
	p.sharers()
	p.recorder(p.a)
	p.rounds(func(key string) error {
		a, b, c := shared(key, long), shared(key, long), recalling(key, long)
		p.joins(p.a, a)
		p.joins(p.b, b)
		if err := p.wait(p.b, c); err != nil {
			return err
		}
		p.release(p.a, a, nil)
		p.hasNot(p.b, c)
		p.release(p.b, b, nil)
		if err := p.gets(p.b, c); err != nil {
			return err
		}
		p.refused(p.a, shared(key, long))
		return nil
	})
}

func recordEnds(p *pair) {
	p.recorder(p.a)
	c := recalling("k", long)
	p.acquire(p.a, c)
	p.keep(p.a, c, nil, locker.Record{Value: "one", TTL: short})
	p.comes(p.b, recalling("k", long), locker.Try{})
	c = recalling("for years", long)
	p.acquire(p.a, c)
	p.keep(p.a, c, nil, locker.Record{Value: "one", TTL: locker.MaxRecordTTL})
	p.finds(c.Key, "one")
}

func forgetsRecord(p *pair) {
	p.forgets(p.a, "k", false)
	p.records(p.a, "k", "one")
	p.forgets(p.b, "k", true)
	p.forgets(p.b, "k", false)
	p.finds("k", "")
	owner := recalling("k", long)
	p.acquire(p.a, owner)
	p.forgets(p.b, "k", false)
	p.owns(p.a, owner)
}

func keepsBytes(p *pair) {
	for i, n := range []int{1, 4 << 10, 4<<10 + 1, 64 << 10, locker.MaxRecord} {
		value := make([]byte, n)
		for j := range value {
			value[j] = byte(rand.N(256))
		}
		key := fmt.Sprint("k", i)
		p.records(p.a, key, string(value))
		p.finds(key, string(value))
	}
}
