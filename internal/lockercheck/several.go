package lockercheck

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The answers of a locker that takes several keys together. For other lockers
// these checks are skipped.
var several = []Check{
	{"several free keys are acquired together", "Several.AcquireAll", acquiresAll},
	{"of several keys none is acquired, or those in front of one that is held", "Several.AcquireAll", acquiresPrefix},
	{"who acquires several keys again has the full TTL again", "Several.AcquireAll, law 4", acquiresAllAgain},
	{"each of several keys is released by itself", "Several.ReleaseAll", releasesAll},
	{"several claims are given up together", "Several.ReleaseAll, End.Queued", givesUpAll},
}

// together acquires cs by one AcquireAll, which must have an answer. held is
// what it must return.
func (p *pair) together(s *side, cs []*locker.Claim, prefix bool, held int) []locker.Answer {
	needs(p.can.Several, "Several")
	var as []locker.Answer
	var got int
	var err error
	comesTrue(p.lag(), func() bool {
		err = heard(func() (err error) {
			as, got, err = s.AcquireAll(p.ctx, cs, prefix)
			return err
		})
		return err != nil || got == held || held < len(cs)
	})
	switch {
	case err != nil:
		fail("AcquireAll: %v, want an answer", err)
	case len(as) != len(cs):
		fail("AcquireAll of %d claims: %d answers", len(cs), len(as))
	case got != held:
		fail("AcquireAll: held is %d, want %d", got, held)
	}
	own := held
	if held < len(cs) && !prefix {
		own = 0
	}
	for i, a := range as {
		if want := i < own; a.Acquired != want {
			fail("AcquireAll, prefix %v, of %d keys of which number %d is held: "+
				"the answer to number %d has Acquired %v", prefix, len(cs), held, i, a.Acquired)
		}
	}
	return as
}

// claims makes n claims on keys of their own, in sorted order.
func claims(key string, n int) []*locker.Claim {
	cs := make([]*locker.Claim, n)
	for i := range cs {
		cs[i] = fencedClaim(fmt.Sprintf("%s-%02d", key, i), long)
	}
	return cs
}

func acquiresAll(p *pair) {
	last := map[string]uint64{}
	for _, n := range []int{1, 3, locker.MaxSeveral} {
		for _, s := range []*side{p.a, p.b} {
			cs := claims("k", n)
			for i, a := range p.together(s, cs, true, n) {
				if a.Token <= last[cs[i].Key] {
					fail("AcquireAll gives %q token %d after %d, want a higher one", cs[i].Key, a.Token,
						last[cs[i].Key])
				}
				last[cs[i].Key] = a.Token + locker.FenceBlock - 1
				if i%20 == 0 {
					p.owns(s, cs[i])
				}
			}
			if got := p.refused(p.a, claim(cs[0].Key, long)).Holder; got.Name != self.Name && got != (locker.Holder{}) {
				fail("the holder of a key acquired with others is %+v, want that of its claim", got)
			}
			for _, c := range cs {
				p.release(s, c, nil)
			}
		}
	}
}

func acquiresPrefix(p *pair) {
	for _, held := range []int{0, 2, 3} {
		for _, prefix := range []bool{false, true} {
			key := fmt.Sprintf("%d%v", held, prefix)
			cs := claims(key, 4)
			other := claim(cs[held].Key, long)
			p.acquire(p.b, other)
			as := p.together(p.a, cs, prefix, held)
			if h := as[held].Holder; h != (locker.Holder{}) && h.Name != self.Name || as[held].Remaining > long {
				fail("AcquireAll: the answer for a held key is %+v, want its owner", as[held])
			}
			for i, c := range cs {
				switch {
				case i == held:
					p.owns(p.b, other)
					p.release(p.b, other, nil)
					p.free(c.Key)
				case prefix && i < held:
					p.owns(p.a, c)
					p.release(p.a, c, nil)
				default: // it may own its key for the moment, see Several
					owner := p.eventually(p.b, c.Key, long)
					wantLost("Renew of a claim that AcquireAll did not make an owner", p.renew(p.a, c))
					p.release(p.b, owner, nil)
				}
			}
		}
	}
}

func acquiresAllAgain(p *pair) {
	cs := claims("k", 3)
	for _, c := range cs {
		c.TTL = long / 2
	}
	p.together(p.a, cs, false, 3)
	time.Sleep(short)
	sent := time.Now()
	p.together(p.a, cs, false, 3)
	for _, c := range cs {
		p.hasFullTTL(c.Key, c.TTL, sent)
		p.owns(p.a, c)
	}
}

// releasesAll releases five keys by one ReleaseAll. The first was lost, one is
// handed over, and one is queued for again.
func releasesAll(p *pair) {
	p.rounds(func(key string) error {
		cs, nexts := claims(key, 5), make([]*locker.Claim, 5)
		p.together(p.a, cs, false, 5)
		p.release(p.a, cs[0], nil)
		waiting, start := []*locker.Claim{claim(cs[2].Key, long), claim(cs[3].Key, long)}, time.Now()
		for _, c := range waiting {
			if err := p.wait(p.b, c); err != nil {
				return err
			}
		}
		nexts[3], nexts[4] = claim(cs[3].Key, long), claim(cs[4].Key, long)
		released := p.releaseAll(p.a, cs, nexts)
		if time.Since(start) >= locker.LookEvery { // those who wait may be passed over (law 6)
			return errTooSlow
		}
		for i, r := range released {
			switch {
			case i == 0:
				wantLost("ReleaseAll of a key that was released before", r.err)
			case r.err != nil:
				fail("ReleaseAll of key %d: %v, want success", i, r.err)
			}
			if want := i == 3; r.Queued != want {
				fail("ReleaseAll: key %d has Queued %v, want %v", i, r.Queued, want)
			}
		}
		for _, c := range waiting {
			p.comes(p.b, c, locker.Try{Wait: true, Queued: true})
			p.release(p.b, c, nil)
		}
		p.free(cs[1].Key)
		p.free(cs[4].Key)
		return nil
	})
}

// freed is the answer to one claim of a ReleaseAll.
type freed struct {
	locker.Released
	err error
}

// releaseAll releases cs by one ReleaseAll, which must answer each once.
func (p *pair) releaseAll(s *side, cs, nexts []*locker.Claim) []freed {
	needs(p.can.Several, "Several")
	all, times := make([]freed, len(cs)), make([]int, len(cs))
	ends := make([]locker.End, len(nexts))
	for i, next := range nexts {
		ends[i].Next = next
	}
	s.ReleaseAll(p.ctx, cs, ends, func(i int, r locker.Released, err error) {
		all[i] = freed{r, err}
		times[i]++
	})
	var err error
	for i, n := range times {
		if n != 1 {
			err = errors.Join(err, fmt.Errorf("claim %d has %d answers", i, n))
		}
	}
	if err != nil {
		fail("ReleaseAll of %d claims: %v, want one for each before it returns", len(cs), err)
	}
	return all
}

// givesUpAll gives up an owner, and a claim that waits in front of another.
func givesUpAll(p *pair) {
	needs(p.can.Several, "Several")
	p.rounds(func(key string) error {
		owner, gone, next, err := p.queue(key)
		if err != nil {
			return err
		}
		other := claim(key+"-other", long)
		p.acquire(p.b, other)
		end := locker.End{Queued: true}
		p.b.ReleaseAll(p.ctx, []*locker.Claim{gone, other}, []locker.End{end, end},
			func(int, locker.Released, error) {})
		p.free(other.Key)
		if _, err := p.handOver(p.a, owner, p.a, next); err != nil {
			return err
		}
		p.owns(p.a, next)
		return nil
	})
}
