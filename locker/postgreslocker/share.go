package postgreslocker

import (
	"encoding/json"
	"errors"

	"github.com/go-lockguard/guard/locker"
)

var _ locker.Sharer = (*Locker)(nil)

// Shares reports true: a key's row keeps its owners, see crowd.sql.
func (*Locker) Shares(int) bool { return true }

// limitOf returns how many claims may own the key of c at once.
func limitOf(c *locker.Claim) int64 { return int64(max(c.Limit, 1)) }

// describe fills in the owners of a key that others may join.
func describe(s *locker.KeyState, shares []byte) error {
	var all []struct {
		O, H string
		N    int
	}
	if err := json.Unmarshal(shares, &all); err != nil {
		return errors.New("the owners cannot be read")
	}
	s.Owner, s.Limit, s.Held = "", locker.NoLimit, len(all) > 0
	for i, o := range all {
		s.Limit = min(s.Limit, o.N)
		if i < locker.MaxListed {
			s.Owners = append(s.Owners, locker.Waiter{Owner: o.O, Holder: holderOf(o.H)})
		}
	}
	return nil
}
