package lockercheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-lockguard/guard/locker"
)

// A failure tells of the claims by numbers. They count from 1 for each key, in
// the order in which the claims first came.

// arrival is a claim and the side that it came to.
type arrival struct {
	side  *side
	claim *locker.Claim
}

// note remembers that c came to s.
func (p *pair) note(s *side, c *locker.Claim) {
	if !slices.ContainsFunc(p.came, func(a arrival) bool { return a.claim.Owner == c.Owner }) {
		p.came = append(p.came, arrival{s, c})
	}
}

// name returns the name of c in messages.
func (p *pair) name(c *locker.Claim) string {
	n := 0
	for _, a := range p.came {
		if a.claim.Key != c.Key {
			continue
		}
		n++
		if a.claim.Owner == c.Owner {
			return fmt.Sprintf("claim %d (of locker %s)", n, a.side.name)
		}
	}
	return "a claim that never came"
}

// saw says which claims were told of a grant of key, and which owns it now. The
// round is over then, so its effect on the key does not matter.
func (p *pair) saw(key string) string {
	var told []string
	owner := ""
	for _, a := range p.came {
		if a.claim.Key != key {
			continue
		}
		for _, s := range []*side{p.a, p.b} {
			if _, ok := s.ear.granted(a.claim); ok {
				told = append(told, p.name(a.claim))
			}
		}
		if owner == "" && p.renew(a.side, a.claim) == nil {
			owner = p.name(a.claim)
		}
	}
	if told == nil {
		told = []string{"nobody"}
	}
	if owner == "" {
		owner = p.stranger(key)
	}
	return fmt.Sprintf("Granted was told for %s; the key's owner is now %s; claims are numbered as they came",
		strings.Join(told, ", "), owner)
}

// stranger describes the owner of key if it is none of the claims that came.
func (p *pair) stranger(key string) string {
	probe := claim(key, short)
	switch a, err := p.b.Acquire(p.ctx, probe, locker.Try{}); {
	case err != nil:
		return "unknown: " + err.Error()
	case a.Acquired:
		_, _ = p.b.Release(p.ctx, probe, locker.End{})
		return "nobody"
	default:
		return fmt.Sprintf("none of the claims (Answer.Holder.Instance is %q)", a.Holder.Instance)
	}
}
