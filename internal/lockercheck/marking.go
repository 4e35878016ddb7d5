package lockercheck

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The answers about marks of a locker that keeps records. For other lockers
// these checks are skipped.
var marking = []Check{
	{"a mark is found when its claim has released the key", "law 12", findsMark},
	{"a mark is found when its claim has died", "law 12", findsMarkOfDead},
	{"a mark is not found while its claim owns the key", "law 12", hidesMark},
	{"a record takes the place of a mark", "Recorder.Begin", keepReplacesMark},
	{"a mark is no record that its claim has kept", "laws 11 and 12", markIsNotKept},
	{"only the owner of a key marks it", "law 12", marksForOwner},
	{"a mark does not replace that of another claim", "law 12", marksBesideNothing},
	{"a claim in the queue finds a mark and leaves", "law 12", leavesForMark},
	{"a claim under which nothing was done leaves no mark", "End.Unmark", unmarks},
	{"a mark is forgotten only when its claim has ended", "Recorder.Forget, law 12", forgetsMark},
	{"a mark ends by its TTL", "law 12", markEnds},
	{"a mark and a renewal at once are both kept", "Locker", marksBesideRenewal},
}

// mark is a mark of the greatest length.
var mark = locker.Record{Value: "mark: 64 bytes, as many as fit.\x00 \xff mark: 64 bytes, as many as.", TTL: long}

// begins marks the key of c, which must succeed.
func (p *pair) begins(s *side, c *locker.Claim) {
	var record string
	err := heard(func() (err error) {
		record, err = p.recorder(s).Begin(p.ctx, c, mark)
		return err
	})
	if record != "" || err != nil {
		fail("Begin by the owner of %q: record %q, %v, want neither", c.Key, record, err)
	}
}

// marked acquires a claim and marks its key.
func (p *pair) marked(s *side, key string) *locker.Claim {
	p.recorder(s)
	c := recalling(key, long)
	p.acquire(s, c)
	p.begins(s, c)
	return c
}

func findsMark(p *pair) {
	p.release(p.a, p.marked(p.a, "released"), nil)
	p.finds("released", mark.Value)
	p.a.giveUp(p.marked(p.a, "given-up"), locker.End{}, false)
	p.release(p.b, p.eventually(p.b, "given-up", long), nil)
	p.finds("given-up", mark.Value)
	again := p.marked(p.b, "again")
	p.begins(p.b, again)
	p.release(p.b, again, nil)
	p.finds("again", mark.Value)
}

// mortal acquires a claim that will end by its TTL, and marks its key. On a busy
// machine that may take longer than the TTL.
func (p *pair) mortal(key string) *locker.Claim {
	m := p.recorder(p.a)
	for {
		c := recalling(key, short)
		p.comes(p.a, c, locker.Try{})
		if _, err := m.Begin(p.ctx, c, mark); err == nil {
			return c
		}
	}
}

func findsMarkOfDead(p *pair) {
	p.mortal("k")
	plain := p.eventually(p.b, "k", long)
	p.finds("k", mark.Value) // beside another owner too
	p.owns(p.b, plain)
	p.release(p.b, plain, nil)
	p.finds("k", mark.Value)
}

func hidesMark(p *pair) {
	c := p.marked(p.a, "k")
	for _, s := range []*side{p.a, p.b} {
		if a := p.refused(s, recalling("k", long)); a.Record != "" {
			fail("Acquire beside the owner of a mark finds the record %q, want the holder", a.Record)
		}
	}
	if a := p.try(p.a, c, locker.Try{}); !a.Acquired || a.Record != "" {
		fail("Acquire again by the owner of a mark: %+v, want the key", a)
	}
	p.owns(p.a, c)
	p.release(p.a, c, nil)
	p.finds("k", mark.Value)
}

func keepReplacesMark(p *pair) {
	c := p.marked(p.a, "k")
	p.keep(p.a, c, nil, locker.Record{Value: "one", TTL: long})
	p.finds("k", "one")
	p.keep(p.a, c, nil, locker.Record{Value: "one", TTL: long})
	p.finds("k", "one")
}

// A claim that has lost its key must not take its mark for the record that it
// wants to keep.
func markIsNotKept(p *pair) {
	c := p.marked(p.a, "k")
	p.release(p.a, c, nil)
	p.wantKeepLost("a claim that has left a mark and released its key", p.a, c, locker.Record{Value: "late", TTL: long})
	p.finds("k", mark.Value)
}

func marksForOwner(p *pair) {
	m := p.recorder(p.a)
	lost := func(what string, c *locker.Claim) {
		record, err := m.Begin(p.ctx, c, mark)
		wantLost("Begin by "+what, err)
		if record != "" {
			fail("Begin by %s finds the record %q", what, record)
		}
	}
	stranger, owner := recalling("k", long), recalling("k", long)
	lost("a claim that was never acquired", stranger)
	p.finds("k", "")
	p.acquire(p.b, owner)
	lost("a claim beside the owner", stranger)
	p.owns(p.b, owner)
	p.release(p.b, owner, nil)
	lost("a claim that was released", owner)
	p.finds("k", "")
}

// A release may hand the key over beside the mark, which stays.
func marksBesideNothing(p *pair) {
	p.recorder(p.b)
	p.rounds(func(key string) error {
		first, second := p.marked(p.a, key), recalling(key, long)
		if err := p.wait(p.b, second); err != nil {
			return err
		}
		p.release(p.a, first, nil)
		switch a := p.try(p.b, second, locker.Try{Wait: true, Queued: true}); {
		case a.Record == mark.Value && !a.Acquired:
			return nil
		case !a.Acquired:
			return fmt.Errorf("a claim that waits has neither its key nor the mark of the one before it: %+v", a)
		}
		record, err := p.recorder(p.b).Begin(p.ctx, second, locker.Record{Value: "second", TTL: long})
		if record != mark.Value || err != nil {
			fail("Begin beside the mark of another claim: record %q, %v, want that mark", record, err)
		}
		p.owns(p.b, second)
		p.release(p.b, second, nil)
		p.finds(key, mark.Value)
		return nil
	})
}

func leavesForMark(p *pair) {
	p.recorder(p.a)
	p.rounds(func(key string) error {
		p.mortal(key)
		waits := recalling(key, long)
		if a := p.try(p.b, waits, locker.Try{Wait: true}); !a.Queued {
			return errNotQueued // a slow machine
		}
		plain := claim(key, long)
		p.comes(p.a, plain, locker.Try{})
		if a := p.try(p.b, waits, locker.Try{Wait: true, Queued: true}); a.Record != mark.Value || a.Queued ||
			a.Acquired {
			fail("Acquire by a claim in the queue, when there is a mark: %+v, want the mark alone", a)
		}
		if r := p.release(p.a, plain, nil); r.Handed {
			fail("a claim that has found a mark was handed the key")
		}
		return nil
	})
}

func unmarks(p *pair) {
	unmark := locker.End{Unmark: true}
	p.end(p.a, p.marked(p.a, "released"), unmark)
	p.finds("released", "")

	p.a.giveUp(p.marked(p.a, "given-up"), unmark, false)
	p.release(p.b, p.eventually(p.b, "given-up", long), nil)
	p.finds("given-up", "")

	lost := p.marked(p.a, "lost")
	p.release(p.a, lost, nil)
	_, err := p.a.Release(p.ctx, lost, unmark)
	wantLost("Release by a claim that had lost its key", err)
	p.finds("lost", "")

	other := p.marked(p.b, "other")
	stranger := recalling("other", long)
	_, err = p.a.Release(p.ctx, stranger, unmark)
	wantLost("Release by a claim that never owned its key", err)
	p.release(p.b, other, nil)
	p.finds("other", mark.Value)
}

func forgetsMark(p *pair) {
	c := p.marked(p.a, "k")
	p.forgets(p.b, "k", false)
	p.owns(p.a, c)
	p.release(p.a, c, nil)
	p.finds("k", mark.Value)
	p.forgets(p.b, "k", true)
	p.forgets(p.b, "k", false)
	p.finds("k", "")
}

func markEnds(p *pair) {
	m := p.recorder(p.a)
	c := recalling("k", long)
	p.acquire(p.a, c)
	if _, err := m.Begin(p.ctx, c, locker.Record{Value: "mark", TTL: short}); err != nil {
		fail("Begin by the owner: %v", err)
	}
	time.Sleep(2 * short)
	p.release(p.a, c, nil)
	for _, s := range []*side{p.a, p.b} {
		c := recalling("k", long)
		p.comes(s, c, locker.Try{})
		p.release(s, c, nil)
	}
}

// marksBesideRenewal marks keys while their claims are renewed. A store that
// reads a key, and then writes back its result, loses one of the two.
func marksBesideRenewal(p *pair) {
	m := p.recorder(p.a)
	cs := make([]*locker.Claim, 8)
	for i := range cs {
		cs[i] = recalling(fmt.Sprintf("k%d", i), long)
		p.acquire(p.a, cs[i])
	}
	time.Sleep(short)
	sent := time.Now()
	errs := make([]error, len(cs)+1)
	var all sync.WaitGroup // ends with the calls
	for i, c := range cs {
		all.Go(func() {
			errs[i] = heard(func() error {
				_, err := m.Begin(p.ctx, c, mark)
				return err
			})
		})
	}
	errs[len(cs)] = caught(func() error {
		return heard(func() error { return errors.Join(p.renewAll(p.a, cs)...) })
	})
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		fail("Begin and Renew at once by the owner: %w, want success", err)
	}
	for _, c := range cs {
		p.hasFullTTL(c.Key, long, sent)
		p.release(p.a, c, nil)
		p.finds(c.Key, mark.Value)
	}
}
