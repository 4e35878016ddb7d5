package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-lockguard/guard/locker"
)

// The roles of calls. A writer is the exclusive call that every library has.
const (
	Writer = "writer"
	Reader = "reader" // has the key together with other readers
	Permit = "permit" // is one of 2 or 3 that have the key
	Cart   = "cart"   // a writer with up to 3 keys, all or none

	Partition = "partition" // a writer on its process's part of the keys, which linger

	// The roles of calls whose result is kept. They have keys of their own, which
	// are new again and again.
	Once    = "once"    // may run again after a crash or an error
	Payment = "payment" // guard.WithAtMostOnce
)

// Roles are the roles of calls.
var Roles = []string{Writer, Reader, Permit, Cart, Once, Payment, Partition}

// ParseRoles reads a list of roles.
func ParseRoles(list string) (chosen []string, err error) {
	chosen = strings.Split(list, ",")
	for _, r := range chosen {
		if !slices.Contains(Roles, r) {
			return nil, fmt.Errorf("-roles: there is no %q; there are %s", r, strings.Join(Roles, ", "))
		}
	}
	return chosen, nil
}

// AtMost implements [Guest].
func (v *visit) AtMost() int { return v.limit }

// alone reports whether nobody may have the key beside v.
func (v *visit) alone() bool { return v.limit <= 1 }

// countedAs names the role of v for the table.
func (v *visit) countedAs() string {
	if v.cart {
		return Cart
	}
	return v.role()
}

// role names the role of v for its key, where a cart is a writer.
func (v *visit) role() string {
	switch v.limit {
	case 0, 1:
		return Writer
	case locker.NoLimit:
		return Reader
	}
	return Permit
}

// crowds checks C3. At each instant fewer have a key than the limit of each of
// them allows. A visit counts from when it got the key until it was last seen
// to have it. So one that hands its permit on and the next are never both in.
func (v *Verdict) crowds(h *History, visits []*visit) {
	var floor Floor[*visit] // who has the key when x gets it
	for _, x := range visits {
		if h.forgets(x, x.got, x.promised()+1) {
			continue
		}
		floor.Leave(func(o *visit) bool { return o.promised() <= x.got })
		n, most := floor.Enter(x)
		if n > most {
			first := floor.In[0]
			v.violate(exclusion, "%d at once, where %d may be:\n    %v\n    got it while %v%v", n, most, x, first,
				h.around(first.got, x.got))
		}
		v.atOnce[x.role()] = max(v.atOnce[x.role()], n)
	}
}

// permitTokens is the part of C2 for permits. Those that run at the same time
// may begin in another order than that of their tokens. But each has a higher
// token than every turn that was alone and began before it was asked for.
func (v *Verdict) permitTokens(h *History, visits []*visit) {
	type turn struct {
		*visit
		highest uint64 // of all turns up to this one
	}
	var lone []turn
	highest := uint64(0)
	for _, x := range visits { // in the order of got
		if x.alone() && x.token != 0 && !h.forgets(x, x.asked, x.got) {
			highest = max(highest, x.token)
			lone = append(lone, turn{x, highest})
		}
	}
	for _, x := range visits {
		if x.role() != Permit || x.token == 0 || h.forgets(x, x.asked, x.got) {
			continue
		}
		before, _ := slices.BinarySearchFunc(lone, x.asked,
			func(t turn, at int64) int { return cmp.Compare(t.got, at) })
		if before > 0 && x.token <= lone[before-1].highest {
			v.violate(tokenOrder, "a permit has a lower token than %d, which was given before: %v",
				lone[before-1].highest, x)
		}
	}
}

// filled returns the times in which carts waited for key. They may have had it
// while they waited for another.
func filled(waits []*visit) (spans []Span) {
	for _, x := range waits {
		if x.cart {
			spans = append(spans, Span{x.asked, x.got + int64(ReleaseLimit(x.ttl))})
		}
	}
	return apart(spans)
}
