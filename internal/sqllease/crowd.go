package sqllease

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// share is one of several owners of a key. The table keeps it as JSON.
type share struct {
	Owner  string          `json:"o"`
	Limit  int             `json:"l"`
	Ends   int64           `json:"e"`
	Token  int64           `json:"t,omitempty"` // first of its last block of tokens
	Holder json.RawMessage `json:"h"`
}

// keepsOut is for how long after its last look a claim keeps those
// behind it from a crowd (law 14).
const keepsOut = 2 * locker.LookEvery

// settle drops the shares that have ended (law 13).
func (r *row) settle() {
	r.crowd = slices.DeleteFunc(r.crowd, func(s share) bool { return s.Ends <= r.now })
}

// share returns the share of owner in a crowd, or nil.
func (r *row) share(owner string) *share {
	if i := slices.IndexFunc(r.crowd, func(s share) bool { return s.Owner == owner }); i >= 0 {
		return &r.crowd[i]
	}
	return nil
}

// owners returns all owners of the key.
func (r *row) owners() []share {
	if r.alone() {
		return []share{{r.owner, 1, r.ends, r.token, r.holder}}
	}
	return r.crowd
}

// room reports whether a claim of that limit may own the key beside its owners
// (law 13).
func (r *row) room(limit int) bool {
	n := len(r.crowd)
	return !r.alone() && n < max(limit, 1) && !slices.ContainsFunc(r.crowd, func(s share) bool { return n >= s.Limit })
}

// behind reports whether the claim of q has to stay behind a claim in the queue
// (law 14). Those in front of it that may own the key were served before.
func (r *row) behind(q *request) bool {
	for _, w := range r.queue {
		switch {
		case w.Owner == q.owner, q.place != 0 && q.place < w.Place:
			return false
		case w.Seen > r.now-keepsOut.Microseconds():
			return true
		}
	}
	return false
}

// join makes the claim with s one of several owners.
func (r *row) join(s share) {
	if own := r.share(s.Owner); own != nil {
		*own = s
	} else {
		r.crowd = append(r.crowd, s)
	}
	r.owner, r.holder, r.dirty = "", nil, true
}

// renew gives a share its full TTL again.
func (r *row) renew(q *request) result {
	own := r.share(q.owner)
	if own == nil {
		return result{}
	}
	own.Ends, r.dirty = r.now+r.grain+q.ttl, true
	return result{ok: true}
}

// describe fills in who owns the key, which is held.
func (r *row) describe(s *locker.KeyState) {
	s.Held, s.Remaining = true, time.Duration(r.remains())*time.Microsecond
	if r.alone() {
		s.Owner, s.Holder = r.owner, holderOf(r.holder)
		return
	}
	s.Limit = locker.NoLimit
	for i, own := range r.crowd {
		s.Limit = min(s.Limit, own.Limit)
		if i < locker.MaxListed {
			s.Owners = append(s.Owners, locker.Waiter{Owner: own.Owner, Holder: holderOf(own.Holder)})
		}
	}
}
