package redislocker

import (
	"fmt"

	"github.com/go-lockguard/guard/locker"
)

const (
	// entryHead is the length of an entry's head, in front of the value.
	entryHead = 6

	// entryVersion is the version of the stored format, see entry.
	entryVersion = 1

	// late is for how many ms a claim may be overdue before a release takes it
	// for dead.
	late = 100
)

// An entry stands for a claim in the queue: six characters, followed by the
// value that the claim's process would store in the key, so that a release can
// store the same value. A value is the owner id, the instance id and a line of
// JSON.
//
//	m or l      a message tells the claim, so it is gone if nobody would hear that; or it only looks
//	j or i      the same of a claim that recalls, see take.lua
//	f or -      the claim wants fencing tokens with the key, or not
//	0000        the short offer, in ms
//	22 + 22     owner id, instance id
//	{"v":1,     byte 56 is the version, the first member of the line
//	"offer":N,  the long offer, in ms; then the rest of the line
//	"limit":"000004"}  the end of the line, of a claim with a limit above 1
//
// It stays the same for the life of the claim.
//
// An entry of a newer version is never taken out of the queue, and never given
// the key. No claim is queued behind it. A release that finds it in front frees
// the key and answers with an error. The look of a new claim also answers with
// an error, see newerError.
func entry(c *locker.Claim, value string, told bool) string {
	how, fencing := byte('l'), byte('-')
	switch {
	case c.Recall && told:
		how = 'j'
	case c.Recall:
		how = 'i'
	case told:
		how = 'm'
	}
	if c.Fencing {
		fencing = 'f'
	}
	return fmt.Sprintf("%c%c%04d", how, fencing, c.ShortOffer().Milliseconds()) + value
}

// newerError says that a claim of a newer version waits for a key.
type newerError struct{ version string }

func (e newerError) Error() string {
	return fmt.Sprintf("redislocker: a claim of version %s waits for the key, and this process knows "+
		"versions up to %d: update it, or go back to one version everywhere", e.version, entryVersion)
}

// state is the locker's own part of a claim.
type state struct {
	claim *locker.Claim
	keys  keys
	owner any
	value any    // of the key: owner id, instance id and a line about the holder
	ttl   any    // in ms
	line  [6]any // memory for the first request
	entry string // in the queue; "" before it was queued
	asked bool   // it may own its key: a request was sent that could do that, or will be
}

// queued returns the claim's entry. heard says that the locker's subscription
// is confirmed. A message is sure to find the claim only if it was confirmed
// before the claim was queued (law 6).
func (st *state) queued(heard bool) string {
	st.asked = true
	if st.entry == "" {
		value, _ := st.value.(string)
		st.entry = entry(st.claim, value, heard)
	}
	return st.entry
}

// renewCall is the request of a renewal.
func (st *state) renewCall() call {
	ttl := st.claim.TTL.Milliseconds()
	if st.claim.Limit > 1 {
		return newCall(renewShareScript, 2, st.keys.lock, st.keys.crowd, st.owner, st.entry, ttl)
	}
	return newCall(renewScript, 1, st.keys.lock, st.owner, ttl)
}

// readFreed reads the answer to a release.
func readFreed(answer command) (locker.Released, error) {
	if answer.Err() != nil {
		return locker.Released{}, leaseError(answer.Err())
	}
	r, owned, err := readRelease(answer.Val())
	if err == nil && !owned {
		err = errNotOwner
	}
	return r, err
}

// readRelease reads the answer of release.lua.
func readRelease(answer any) (r locker.Released, owned bool, err error) {
	if n, ok := answer.(int64); ok {
		return r, n == 1, nil
	}
	parts, ok := answer.([]any)
	if !ok || len(parts) != 4 && len(parts) != 5 {
		return r, false, unclear(errNoAnswer)
	}
	if len(parts) == 5 {
		version, _ := parts[4].(string)
		return r, false, unclear(newerError{version})
	}
	n, _ := parts[0].(int64)
	waiting, _ := parts[1].(int64)
	handed, _ := parts[2].(int64)
	r = locker.Released{Waiting: int(waiting), Handed: handed == 1}
	r.Place, r.Queued = readPlace(parts[3])
	return r, n == 1, nil
}

func readRenewed(answer command) error {
	if n, err := answer.Int(); err != nil {
		return leaseError(err)
	} else if n != 1 {
		return errNotOwner
	}
	return nil
}
