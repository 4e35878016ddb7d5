package locker

import "time"

const (
	// FenceBlock is how many consecutive fencing tokens are reserved at a time:
	// one for each turn that a process may take on one grant.
	FenceBlock = 64

	// OwnerLen is the length in bytes of every owner id. It is fixed so that a
	// store may compare ids by prefix.
	OwnerLen = 22

	// MaxKey is the length in bytes of the longest Claim.Key.
	MaxKey = 200

	// LookEvery is how long a claim that waits goes unseen at most, unless it
	// rests: the guard calls Acquire for it again within that time.
	LookEvery = 500 * time.Millisecond

	// MaxRest is the longest Answer.Rest.
	MaxRest = 10*time.Second + LookEvery

	// QueueLife is how long a claim stays in the queue after the last Acquire
	// that saw it there, unless it rests: see [Life].
	QueueLife = 2 * time.Second
)

// Life is how long a claim stays in the queue after an Acquire that saw it
// there and answered with the given Rest: QueueLife, and longer by what a rest
// takes beyond LookEvery.
func Life(rest time.Duration) time.Duration { return QueueLife + max(0, rest-LookEvery) }

// Claim is one process's wish for a key. The guard makes it, and reads it at
// any time. A locker changes State and Holder.Instance only. It sets
// Holder.Instance in the first Acquire, or in the Release that gets the claim
// as next, and never again.
type Claim struct {
	// Key is 1 to MaxKey bytes. The guard has escaped control bytes, braces and
	// '%' in what its caller gave, and hashed what was longer: there are two
	// hexadecimal digits, or "sha256:", behind each '%', so names with anything
	// else there are the store's own. Bytes from 0x80 on are as the caller gave
	// them, valid UTF-8 or not.
	Key string

	Owner   string        // OwnerLen random base64url characters
	TTL     time.Duration // whole milliseconds, 100 ms to 24 days
	Fencing bool          // becoming the owner reserves a block of fencing tokens too
	Holder  Holder        // who we are, for others to read beside the key; the locker puts its own id into Instance

	// State belongs to the locker, which may keep here what it needs from call
	// to call. The guard never looks.
	State any
}

// LongOffer is for how long a Release offers the key to c if the store knows
// that c's process hears of it: a third of the TTL, but 1 to 5 s, so that a
// pause of the process or of the store does not cost the lease before its first
// renewal.
func (c *Claim) LongOffer() time.Duration {
	return min(c.TTL, max(time.Second, min((c.TTL/3).Truncate(time.Millisecond), 5*time.Second)))
}

// ShortOffer is for how long a Release offers the key to c otherwise: that is
// what c costs the others if its process has died.
func (c *Claim) ShortOffer() time.Duration { return min(c.TTL, time.Second) }

// Offer is a key that another process's Release has handed over, as the message
// tells of it.
type Offer struct {
	// Length is how long the key is the claim's from the hand-over on, unless
	// the claim renews it: its LongOffer or its ShortOffer. 0 says that the
	// message does not know: then the guard calls Acquire before it relies on
	// the key.
	Length time.Duration

	Token   uint64 // the first of a block of fencing tokens; 0 if the claim wants none
	Waiting int    // other claims that wait behind it, the releaser's next among them
}

// Holder describes who holds a key, as far as the store knows it. It is for
// logs and operators, not for clients. A store may alter what it cannot keep,
// such as a zero byte or invalid UTF-8.
type Holder struct {
	Instance string    `json:"instance,omitempty"` // id of the holder's locker; a process may have several
	Host     string    `json:"host,omitempty"`     // host name
	PID      int       `json:"pid,omitempty"`      // process id on that host
	Since    time.Time `json:"since,omitzero"`     // when the holder began to contend, by its own clock
	Name     string    `json:"name,omitempty"`     // name of its guard, see guard.WithName

	Traceparent string `json:"traceparent,omitempty"` // W3C, of the call that made the claim; from an Observer
}

// Try says how an Acquire goes about it.
type Try struct {
	// Wait says that the claim is to be queued if somebody else owns the key:
	// the caller will wait. Without it a claim that is in the queue stays
	// there, and has been seen.
	Wait bool

	// Held says that somebody else is likely to own the key: where looking and
	// taking are two requests, look first. A store that needs one request for
	// both ignores it.
	Held bool

	// Queued says that the claim was put into the queue before. If somebody
	// else owns the key and the claim is not in the queue any more, it was
	// granted and came too late, or was not seen for QueueLife: it must not be
	// queued again (law 2). It may still take a key that is free.
	Queued bool

	// Place is the place in the queue that this contender had before, under
	// this owner id or an earlier one; 0 for none. It is queued there, in front
	// of those who came later, and behind those that have the same place.
	Place Place

	// Rest is for how long the guard would like not to look at the claim again,
	// because its process waits for many keys; 0 for no longer than LookEvery.
	Rest time.Duration
}

// Place is a place in a queue: positive, and lower is nearer to the front; 0 is
// none. What the numbers mean is the store's business, the time of arrival by
// its own clock being a good choice. One that the store gave may come back at
// any time, also after the queue was empty.
type Place int64

// Answer is what an Acquire found.
type Answer struct {
	Acquired bool   // the claim owns the key
	Token    uint64 // if it does and wants fencing: the first of its block of tokens

	Holder    Holder        // if it does not: who does, zero if the store cannot know
	Remaining time.Duration // until that ends unless it is renewed, or more, up to the TTL; 0 if unknown
	// the claim is in the queue; with ErrUnavailable: it may be, by this
	// Acquire or an earlier one
	Queued bool
	Place  Place // its place there, else 0; the guard keeps the last for the tries that follow

	// Rest is for how long a claim in the queue may go unseen from this Acquire
	// on, in place of LookEvery: what Try.Rest asked for, but MaxRest at most;
	// or
	// 0. It counts until the next Acquire, whatever that answers. A store grants
	// a rest only where law 7 allows it.
	Rest time.Duration
}

// Released is what a Release found.
type Released struct {
	// Waiting counts the other claims in the queue that could be granted the
	// key when the Release came. The one that got it counts, next does not. It
	// is 1 if that is not known.
	Waiting int

	Handed bool  // the key went to one of them, whatever its process says to that
	Queued bool  // next is in the queue
	Place  Place // its place there
}
