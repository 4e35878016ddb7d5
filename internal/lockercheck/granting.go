package lockercheck

import (
	"fmt"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var granting = []Check{
	{"who is given up is not granted", "law 3", givenUpNotGranted},
	{"what was granted to who is given up goes on", "Locker.Release, End.Queued", givenUpGoesOn},
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

// givenUpNotGranted relies on the release of the claim before the offer of a
// grant ends. That may be late.
func givenUpNotGranted(p *pair) {
	p.rounds(func(key string) error {
		c, gone, next, err := p.queue(key)
		if err != nil {
			return err
		}
		p.b.giveUp(gone, locker.End{}, false)
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

// givenUpGoesOn releases a claim by its owner id alone.
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
		p.b.ear.Orphaned(key, gone.Owner)
		if _, err := p.served(p.a, next, unanswered, sent); err != nil {
			return fmt.Errorf("a Release by an owner id alone: %w", err)
		}
		p.owns(p.a, next)
		return nil
	})
}
