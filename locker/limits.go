package locker

import (
	"cmp"
	"fmt"
	"time"
)

// Limits says how far a store falls short of the demands of package locker. The
// zero value is a store that meets all of them.
type Limits struct {
	MinTTL time.Duration // the shortest TTL; 0 is 100 ms
	MaxTTL time.Duration // the longest TTL; 0 is 24 days
	Step   time.Duration // every TTL is a multiple of it; 0 is 1 ms

	// Late is how long after the TTL, or after an offer, another process that
	// waits for the key may find it still taken. LateForOthers is the same for
	// a process that has never looked at the key. No store ends a lease early.
	Late, LateForOthers time.Duration
}

// Check returns an ErrInvalidOption with the numbers if a store with these
// limits cannot keep ttl.
func (s Limits) Check(ttl time.Duration) error {
	least, step := max(s.MinTTL, 100*time.Millisecond), max(s.Step, time.Millisecond)
	most := cmp.Or(s.MaxTTL, 24*24*time.Hour)
	if ttl < least || ttl > most || ttl%step != 0 {
		return fmt.Errorf("%w: the TTL is %v, but this store keeps a key for %v to %v, in steps of %v",
			ErrInvalidOption, ttl, least, most, step)
	}
	return nil
}
