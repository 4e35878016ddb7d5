package redislocker

import (
	"fmt"

	"github.com/go-lockguard/guard/locker"
)

// An entry is what a claim is in the queue: six characters, and then the very value that its process would store in the
// key, so that a release can put it there.
//
//	m or l   told by a message, so that one whose message reaches nobody is gone; or looks only
//	f or -   wants fencing tokens with the key, or not
//	0000     the offer, in ms
//
// It stays the same for the life of the claim.
const entryHead = 6

func entry(c *locker.Claim, value string, told bool) string {
	how, fencing := byte('l'), byte('-')
	if told {
		how = 'm'
	}
	if c.Fencing {
		fencing = 'f'
	}
	return fmt.Sprintf("%c%c%04d", how, fencing, c.Offer().Milliseconds()) + value
}

// state is what the locker keeps in a claim.
type state struct {
	keys  keys
	owner any
	about string // behind the owner id in the value of the key: the instance id and a line about the holder
	entry string // in the queue; "" before it was queued
}

func (l *Locker) state(c *locker.Claim) *state {
	st, ok := c.State.(*state)
	if !ok {
		st = &state{keys: l.keys(c.Key), owner: c.Owner, about: l.describe(c.Holder)}
		c.State = st
		c.Holder.Instance = l.instance
	}
	return st
}

// queued returns the claim's entry. A message must be sure to find it only if the subscription was confirmed before it was
// queued (law 7).
func (l *Locker) queued(c *locker.Claim) string {
	st := l.state(c)
	if st.entry == "" {
		st.entry = entry(c, c.Owner+st.about, l.inbox.live.Load())
	}
	return st.entry
}
