package lockercheck

import (
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var granting = []Check{
	{"a grant that nobody knows goes on", "law 3", unknownGoesOn},
	{"a grant that nobody knows frees the key, if nobody waits", "law 3", unknownFrees},
	{"who is given up is not granted", "law 3", givenUpNotGranted},
	{"what was granted to who is given up goes on", "Locker.Abandon", givenUpGoesOn},
}

// waited makes two claims: c owns key on p.a, and next waits for it on p.b.
func (p *pair) waited(key string) (c, next *locker.Claim, err error) {
	c, next = claim(key, long), claim(key, long)
	p.acquire(p.a, c)
	return c, next, p.wait(p.b, next)
}

// queue makes three claims. The first owns key on p.a. The second waits on p.b,
// and the third behind it on p.a.
func (p *pair) queue(key string) (c, second, third *locker.Claim, err error) {
	c, second, err = p.waited(key)
	third = claim(key, long)
	if err == nil {
		err = p.wait(p.a, third)
	}
	return c, second, third, err
}

// unknownGoesOn tests a grant to a claim that its process does not know. A
// process that wakes itself gives up the claim instead, because no such store
// asks whether the claim is known.
func unknownGoesOn(p *pair) {
	p.rounds(func(key string) error {
		c, gone, next, err := p.queue(key)
		if err != nil {
			return err
		}
		p.b.ear.forget(gone)
		p.a.ear.wakened(key)
		sent := time.Now()
		r := p.release(p.a, c, nil)
		if !r.Handed {
			p.abandon(p.b, gone)
		}
		if _, err := p.served(p.a, next, r, sent); err != nil {
			return err
		}
		p.owns(p.a, next)
		return nil
	})
}

func unknownFrees(p *pair) {
	p.rounds(func(key string) error {
		c, gone, err := p.waited(key)
		if err != nil {
			return err
		}
		p.b.ear.forget(gone)
		sent := time.Now()
		if r := p.release(p.a, c, nil); !r.Handed {
			p.abandon(p.b, gone)
		}
		p.eventually(p.a, key, long)
		if time.Since(sent) > gone.ShortOffer()/2 {
			return errNotFreed
		}
		return nil
	})
}

// givenUpNotGranted relies on the background work of Abandon before the offer
// of a grant ends. That work may be late.
func givenUpNotGranted(p *pair) {
	p.rounds(func(key string) error {
		c, gone, next, err := p.queue(key)
		if err != nil {
			return err
		}
		p.abandon(p.b, gone)
		time.Sleep(p.hearing)
		if _, err := p.handOver(p.a, c, p.a, next); err != nil {
			return err
		}
		if _, ok := p.b.ear.granted(gone); ok {
			return errGranted
		}
		p.release(p.a, next, nil)
		p.free(key)
		return nil
	})
}

func givenUpGoesOn(p *pair) {
	p.rounds(func(key string) error {
		c, gone, next, err := p.queue(key)
		if err != nil {
			return err
		}
		p.b.ear.wakened(key)
		if _, err := p.handOver(p.a, c, p.b, gone); err != nil {
			return err
		}
		p.a.ear.wakened(key)
		sent := time.Now()
		p.abandon(p.b, gone)
		if _, err := p.served(p.a, next, unanswered, sent); err != nil {
			return fmt.Errorf("Abandon by the owner of a key: %w", err)
		}
		p.owns(p.a, next)
		return nil
	})
}
