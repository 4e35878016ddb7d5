package turns

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// A validity says until when a grant is good, when it is renewed, and why it
// has ended. The grant's mutex guards it.
type validity struct {
	terms    *terms // those of the bid that has won
	trust    trust
	renewAt  time.Time     // zero: never
	renewing chan struct{} // closed when the renewal is answered
	revoked  time.Time     // when the key may have been released by force; zero: not since the last renewal was sent
	took     time.Duration // to answer the last request; 0: not known
	fault    error         // of the renewals since the last that succeeded, see moreTelling
	cause    error         // why the grant ended; nil while it has not
}

// validityFrom returns the validity of a lease of the given length on these
// terms, whose request was sent at the given time.
func validityFrom(ts *terms, sent time.Time, length time.Duration) validity {
	v := validity{terms: ts, trust: trustFrom(sent, length)}
	if !ts.noRenewal {
		v.renewAt = limits.RenewalTime(sent, length)
	}
	return v
}

// good reports whether a turn may begin now.
func (v *validity) good(now time.Time) bool { return v.cause == nil && v.trust.enough(now) }

// err returns why the grant cannot be trusted, or nil.
func (v *validity) err() error {
	if v.cause != nil {
		return v.cause
	}
	// The timer has yet to fire, or the machine slept.
	if now := time.Now(); v.trust.left(now) <= 0 {
		return v.overdue(now)
	}
	return nil
}

// renewSoon makes the first renewal of an offer due early, because the lease is
// shorter than its TTL until then and a pause may cost it. A turn that ends
// before that costs no renewal. The grant is not shared yet.
func (v *validity) renewSoon(now time.Time) {
	if v.renews() {
		v.renewAt = v.firstRenewal(now)
	}
}

// renews reports whether v is to be renewed. WithoutRenewal allows the
// renewals that bring the full TTL.
func (v *validity) renews() bool {
	return !v.terms.noRenewal || v.trust.length < v.terms.ttl
}

// firstRenewal returns when the first renewal of an offer is due, now that a
// turn is about to begin. Of a very short one half of what is left is for that.
func (v *validity) firstRenewal(now time.Time) time.Time {
	return now.Add(min(limits.OfferRenewal, v.trust.left(now)/2))
}

// nextRenewal returns when the next renewal is due after one that was sent at
// the given time and answered now. An offer may be older than its message, and
// must grow while it is trusted: there must be time for two more that take as
// long.
func (v *validity) nextRenewal(sent, now time.Time) time.Time {
	slack := max(0, v.trust.left(now)-2*now.Sub(sent))
	return earlier(limits.RenewalTime(sent, v.trust.length), now.Add(slack/2))
}

// answered takes the answer to a renewal that was sent at the given time, for a
// lease of the given length. answered reports whether the grant is lost.
func (v *validity) answered(sent, now time.Time, length time.Duration, err error) (lost bool) {
	switch {
	case err == nil:
		v.trust = v.trust.renewed(trustFrom(sent, length))
		v.renewAt, v.took, v.fault = time.Time{}, now.Sub(sent), nil
		if v.revoked.Before(sent) { // otherwise the answer may be older
			v.revoked = time.Time{}
		}
		switch {
		case !v.revoked.IsZero():
			v.renewAt = now
		case v.renews():
			v.renewAt = v.nextRenewal(sent, now)
		}
	case errors.Is(err, locker.ErrLeaseLost):
		return true
	default: // the deadline decides; until then try again
		v.renewAt, v.fault = now.Add(limits.Jitter(v.trust.length/20)+time.Millisecond), moreTelling(v.fault, err)
	}
	return false
}

// overdue is the cause of a grant that was not renewed before its deadline.
func (v *validity) overdue(now time.Time) error {
	since := now.Sub(v.trust.sent()).Round(time.Millisecond)
	why := fmt.Sprintf("no renewal for %v: the store gave no answer, or this process was stopped", since)
	switch {
	case v.terms.noRenewal:
		why = "WithoutRenewal, it ends with its TTL"
	case v.trust.mono.After(now):
		why = "the machine slept, or its clock was set forward"
	case v.fault != nil: // the store may have answered; it is text only, because the lease is lost whatever it says
		why = fmt.Sprintf("no renewal succeeded for %v: %v", since, v.fault)
	}
	err := fmt.Errorf("%w: not renewed before its deadline: %s", locker.ErrLeaseLost, why)
	return errnote.With(err, errnote.Deadline)
}

// trust is the time until which a lease may be relied on, with two deadlines.
// One is on the monotonic clock, which nobody can set. The other is on the wall
// clock, which goes on while the machine sleeps. The one that passes first ends
// the trust.
type trust struct {
	mono, wall time.Time
	// length is the length of the lease: its TTL, or that of an offer or a key
	// that lingers, before it has grown.
	length time.Duration
	// grown is the length that a renewal has given to a shorter lease. The
	// lease is trusted for that when another renewal has succeeded; 0: none.
	grown time.Duration
}

// trustFrom returns the trust in a lease of the given length. The lease began
// in the store at some time after its request was sent (law 1).
func trustFrom(sent time.Time, length time.Duration) trust {
	end := sent.Add(limits.Trusted(length))
	return trust{mono: end, wall: end.Round(0), length: length}
}

// left returns how long trust lasts from now. left is negative after the end.
func (t trust) left(now time.Time) time.Duration {
	return min(t.mono.Sub(now), t.wall.Sub(now.Round(0)))
}

// enough reports whether enough is left for a turn to begin.
func (t trust) enough(now time.Time) bool { return t.left(now) >= limits.Remaining(t.length) }

// sent returns when the request was sent that the trust comes from.
func (t trust) sent() time.Time { return t.mono.Add(-limits.Trusted(t.length)) }

// expiry returns about when the store drops the key unless the lease is
// renewed.
func (t trust) expiry() time.Time { return t.mono.Add(t.length - limits.Trusted(t.length)) }

// half returns what is left when the answer to a renewal is late that was due
// at the given time: half of a fresh lease. A lease that is shorter than its
// TTL is renewed when less may be left than that. Of it half is late of what
// was left then.
func (t trust) half(ttl time.Duration, due time.Time) time.Duration {
	if t.length < ttl {
		return t.left(due) / 2
	}
	return limits.Trusted(t.length) / 2
}

// renewed returns the trust after a renewal. A renewal never shortens trust.
//
// A failover may lose the last write, and then leave the key the lease that it
// had before. So the renewal that makes a lease longer adds no trust. The next
// one does, because it finds the key there or tells of its loss. It comes a
// third of the shorter lease later, or earlier if the trust ends soon. A
// renewal of a lease that has its full length already is one TTL after another,
// of which the older lasts for two thirds when the next comes.
func (t trust) renewed(o trust) trust {
	if o.length > t.length && o.length > t.grown {
		t.grown = o.length
		return t
	}
	if t.mono.After(o.mono) {
		o.mono, o.wall = t.mono, t.wall
	}
	return o
}
