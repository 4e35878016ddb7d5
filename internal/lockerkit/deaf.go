package lockerkit

import "github.com/go-lockguard/guard/locker"

// Deaf is a [locker.Waker] that knows no owner and does nothing. A Waker that
// needs few of its methods embeds it.
type Deaf struct{}

var _ locker.Waker = Deaf{}

func (Deaf) Granted(string, string, locker.Offer) bool { return false }
func (Deaf) Wanted(string)                             {}
func (Deaf) Wake(string)                               {}
func (Deaf) WakeAll()                                  {}
func (Deaf) Revoked(string, string)                    {}
func (Deaf) Recorded(string, string, string)           {}
