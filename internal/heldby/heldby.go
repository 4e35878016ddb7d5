// Package heldby says in words how several leases share a key, for the tools of
// operators.
package heldby

import (
	"strconv"

	"github.com/go-lockguard/guard/locker"
)

// Several returns "shared by 3" or "2 of 4 permits". It returns "" for a key
// that nobody owns, or one claim alone.
func Several(s locker.KeyState) string {
	if s.Limit == 0 {
		return ""
	}
	n := strconv.Itoa(len(s.Owners))
	if len(s.Owners) >= locker.MaxListed {
		n = "at least " + n
	}
	if s.Limit == locker.NoLimit {
		return "shared by " + n
	}
	return n + " of " + strconv.Itoa(s.Limit) + " permits"
}
