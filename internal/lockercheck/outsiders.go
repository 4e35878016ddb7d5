package lockercheck

import (
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// outsiders are claims that are not in the queue, and must not be.
var outsiders = []Check{
	{"a try that does not wait leaves the queue as it is", "Locker.Acquire, Try.Wait", queuesWaitersOnly},
	{"a release that has lost its lease queues nothing", "Locker.Release", lostQueuesNothing},
	{"a free key is anybody's, whoever is in the queue", "Locker.Acquire, law 7", freeForAll},
}

// queuesWaitersOnly tries two claims without Wait: one in the queue, and one
// that is not there.
func queuesWaitersOnly(p *pair) {
	p.rounds(func(key string) error {
		c, next, err := p.waited(key)
		if err != nil {
			return err
		}
		p.try(p.b, next, locker.Try{Queued: true})
		p.refused(p.a, claim(key, long))
		if _, err := p.look(p.b, next, locker.Try{Queued: true}); err != nil {
			return fmt.Errorf("%w: it was queued, and then tried without Try.Wait, which takes nobody out", err)
		}
		if _, err := p.handOver(p.a, c, p.b, next); err != nil {
			return err
		}
		if r := p.release(p.b, next, nil); r.Handed {
			fail("a claim that was refused without Try.Wait was queued: Release handed the key to it")
		}
		p.free(key)
		return nil
	})
}

// lostQueuesNothing releases a key that another claim owns. It passes a next
// claim.
func lostQueuesNothing(p *pair) {
	c, lost, next := claim("k", long), claim("k", long), claim("k", long)
	p.acquire(p.b, c)
	_, err := p.a.Release(p.ctx, lost, locker.End{Next: next})
	wantLost("Release of a key that another owns", err)
	if a := p.try(p.a, next, locker.Try{Wait: true, Queued: true}); a.Acquired || a.Queued {
		fail("the next claim of a Release that answered ErrLeaseLost: Acquired %v, Queued "+
			"%v, want neither", a.Acquired, a.Queued)
	}
	if r := p.release(p.b, c, nil); r.Handed {
		fail("the key was handed to the next claim of a Release that had answered ErrLeaseLost")
	}
	p.free("k")
}

// freeForAll lets a lease end while a claim is in the queue. That claim does
// not come back.
func freeForAll(p *pair) {
	p.rounds(func(key string) error {
		c, waits := claim(key, short), claim(key, long)
		start := time.Now()
		p.acquire(p.a, c)
		queued := time.Now()
		if a := p.try(p.b, waits, locker.Try{Wait: true}); a.Acquired {
			return freeEarly(c, start)
		} else if !a.Queued {
			return errNotQueued
		}
		time.Sleep(2 * short)
		for stranger := claim(key, long); !p.try(p.a, stranger, locker.Try{}).Acquired &&
			time.Since(queued) < patience; {
			time.Sleep(short)
		}
		if took := time.Since(queued); took >= locker.QueueLife {
			return fmt.Errorf("a key that is free by its TTL of %v was refused for %v, while a claim "+
				"was in its queue", short, took)
		}
		return nil
	})
}
