package locker

import "time"

const (
	// FenceBlock is the number of consecutive fencing tokens that are reserved
	// at a time. A process has one for each turn that it may take on one grant.
	FenceBlock = 64

	// OwnerLen is the length in bytes of every owner id. It is fixed so that a
	// store may compare ids by prefix.
	OwnerLen = 22

	// MaxKey is the length in bytes of the longest Claim.Key.
	MaxKey = 200

	// NoLimit is the Claim.Limit of a claim that any number of other such
	// claims may own the key with: a shared lease.
	NoLimit = 999_999

	// LookEvery is the longest time that a waiting claim goes unseen, unless it
	// rests. The guard calls Acquire for it again within that time.
	LookEvery = 500 * time.Millisecond

	// MaxRest is the longest Answer.Rest.
	MaxRest = 10*time.Second + LookEvery

	// QueueLife is how long a claim stays in the queue after the last Acquire
	// that saw it there. A claim that rests stays longer, see [Life].
	QueueLife = 2 * time.Second
)

// Life is how long a claim stays in the queue after an Acquire that saw it
// there and answered with the given Rest. It is QueueLife, plus the time by
// which the rest exceeds LookEvery.
func Life(rest time.Duration) time.Duration { return QueueLife + max(0, rest-LookEvery) }

// Claim is a process that wants a key, or owns it. The guard makes it, and
// reads it at any time.
//
// A locker changes State and Holder.Instance only. It sets Holder.Instance in
// the first Acquire, or in the Release that has the claim as Next. It never
// sets it again.
type Claim struct {
	// Key is 1 to MaxKey bytes.
	//
	// The guard escapes control bytes, braces and '%' in the key of its caller,
	// and hashes a longer key. Two hexadecimal digits or "sha256:" follow each
	// '%'. So names with anything else after a '%' are the store's own.
	//
	// Bytes from 0x80 on are as the caller gave them. They need not be valid
	// UTF-8.
	Key string

	Owner string        // OwnerLen random base64url characters
	TTL   time.Duration // whole milliseconds, 100 ms to 24 days
	// Fencing says that becoming the owner also reserves a block of fencing
	// tokens.
	Fencing bool
	// Recall says that an Acquire finds the record of the key, if there is one,
	// and then does nothing else. Such a claim has a Limit of 0. It needs
	// [Capabilities].Records.
	Recall bool
	// Lingers says that the process may keep the key when no call there uses
	// it, until it hears by [Waker.Wanted] that another wants the key. Such a
	// claim has a Limit of 0 and no Recall. It needs [Capabilities].Lingers.
	Lingers bool

	// Limit is how many claims may own the key at once, this one included. 0
	// and 1 mean that this claim owns the key alone. NoLimit shares the key
	// with any number of claims, and comes without Fencing. A number in between
	// makes the claim one of so many permits. See laws 9 and 10.
	//
	// A limit above 1 needs [Capabilities].Shares.
	Limit int

	// Holder describes this process, for others to read beside the key. The
	// locker puts its own id into Instance.
	Holder Holder

	// State belongs to the locker, which may keep here what it needs from call
	// to call. The guard never reads it.
	State any
}

// LongOffer is how long a Release offers the key to c if the store knows that
// c's process hears of it. It is a third of the TTL, but 1 s at least and 5 s
// at most, and never longer than the TTL. So a pause of the process or of the
// store does not cost the lease before its first renewal.
func (c *Claim) LongOffer() time.Duration {
	return min(c.TTL, max(time.Second, min((c.TTL/3).Truncate(time.Millisecond), 5*time.Second)))
}

// ShortOffer is how long a Release offers the key to c otherwise. If the
// process of c has died, the others lose that time.
func (c *Claim) ShortOffer() time.Duration { return min(c.TTL, time.Second) }

// First is the length of the lease with which c becomes the owner by an
// Acquire: its TTL, or the LongOffer if c lingers. A process that dies with a
// key that nobody uses then costs the others no more than that.
func (c *Claim) First() time.Duration {
	if c.Lingers {
		return c.LongOffer()
	}
	return c.TTL
}

// Offer is a key that another process's Release has handed over, as the message
// describes it.
type Offer struct {
	// Length is how long the key is the claim's from the hand-over on, unless
	// the claim renews it. It is the LongOffer or the ShortOffer of the claim.
	//
	// 0 means that the message does not know the length. The guard then calls
	// Acquire before it relies on the key.
	Length time.Duration

	Token   uint64 // the first of a block of fencing tokens; 0 if the claim wants none
	Waiting int    // other claims that wait behind it, with the releaser's Next
}

// Holder describes the holder of a key, as far as the store knows it. It is for
// logs and operators, not for clients. A store may alter what it cannot keep,
// such as a zero byte or invalid UTF-8.
type Holder struct {
	Instance string    `json:"instance,omitempty"` // id of its locker; a process may have several
	Host     string    `json:"host,omitempty"`     // host name
	PID      int       `json:"pid,omitempty"`      // process id on that host
	Since    time.Time `json:"since,omitzero"`     // when it began to contend, by its own clock
	Name     string    `json:"name,omitempty"`     // name of its guard, see guard.WithName

	// Traceparent is the W3C trace of the call that made the claim. It comes
	// from an Observer.
	Traceparent string `json:"traceparent,omitempty"`
}

// Try says how an Acquire goes about it.
type Try struct {
	// Wait says that the caller will wait. The claim is queued if another claim
	// owns the key. Without Wait, a claim that is in the queue stays there and
	// has been seen.
	Wait bool

	// Held says that another claim is likely to own the key. If looking and
	// taking are two requests, the store should look first. A store that needs
	// one request for both ignores Held.
	Held bool

	// Queued says that the claim was put into the queue before. If another
	// claim owns the key and this one is not in the queue any more, it was
	// granted and came too late. Or it was not seen for QueueLife. In both
	// cases it must not be queued again (law 2). It may still take a free key.
	Queued bool

	// Place is the place in the queue that this contender had before, under
	// this owner id or an earlier one. 0 means none.
	//
	// The claim is queued at that place: in front of later claims, and behind
	// the claims that have the same place.
	Place Place

	// Rest is how long the guard would like not to look at the claim again,
	// because its process waits for many keys. 0 asks for no longer than
	// LookEvery.
	Rest time.Duration
}

// Place is a place in a queue. It is positive, and a lower place is nearer to
// the front. 0 means none.
//
// The meaning of the numbers is the store's business. The time of arrival by
// the store's own clock is a good choice. A place that the store gave may come
// back at any time, even after the queue was empty.
type Place int64

// Answer is the result of an Acquire.
type Answer struct {
	Acquired bool // the claim owns the key
	// Token is the first of the claim's block of fencing tokens, if it owns the
	// key and wants fencing.
	Token uint64
	// Record is the record of the key, if there is one and the claim recalls.
	// It is "" otherwise. The claim then neither owns the key nor is in the
	// queue.
	Record string

	// Holder is the owner if another claim owns the key. It is zero if the
	// store cannot know, or if the owners have a limit above 1.
	Holder Holder
	// Remaining is the time until that lease ends unless it is renewed. It may
	// be more, up to the TTL. 0 means unknown. If there are several owners, it
	// is the time until the last of their leases ends.
	Remaining time.Duration
	// Lingers says that the owner's claim lingers, so its process may give the
	// key up as soon as a claim waits.
	Lingers bool
	// Queued says that the claim is in the queue. With ErrUnavailable, the
	// claim may be in the queue by this Acquire or an earlier one.
	Queued bool
	// Place is the claim's place in the queue, or 0. The guard passes the last
	// place to the tries that follow.
	Place Place

	// Rest is how long a claim in the queue may go unseen from this Acquire on,
	// in place of LookEvery. It is at most Try.Rest and at most MaxRest. It may
	// be 0. It counts until the next Acquire, whatever that answers.
	//
	// A store grants a rest only where law 6 allows it.
	Rest time.Duration
}

// End says what a Release does beside that it ends a claim.
type End struct {
	// Queued says that the claim is given up: it may be in the queue too, which
	// it leaves. Next is nil then.
	Queued bool

	// Next is queued behind all claims that wait, if another claim owns the key
	// then. It is nil if nobody here wants the key again. A Next with a limit
	// above 1 may be one of those that get the key.
	Next *Claim

	// Record is kept beside the key, see [Recorder]. A zero Record is none.
	Record Record

	// Unmark removes the mark of the claim: no function has done anything under
	// it. See [Recorder.Begin].
	Unmark bool
}

// Released is the result of a Release.
type Released struct {
	// Waiting counts the other claims in the queue that could be granted the
	// key when the Release came. The claim that got the key counts, and the
	// next of the releaser does not. Waiting is 1 if the number is not known.
	Waiting int

	// Handed says that another claim owns the key now, whatever its process
	// answers: one of those that waited, or one that owned the key beside c.
	Handed bool
	// Queued says that End.Next was put into the queue. It may own the key
	// already if its limit is above 1. Its process is told by Granted then.
	Queued bool
	Place  Place // its place there
}
