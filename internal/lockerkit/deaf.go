package lockerkit

import "github.com/go-lockguard/guard/locker"

// Deaf is a [locker.Waker] that knows no owner and does nothing. A Waker that
// needs few of its methods embeds it.
type Deaf struct{}

var _ locker.Waker = Deaf{}

// Granted does nothing, as the methods below.
func (Deaf) Granted(string, string, locker.Offer) {}

// Orphaned is a method of [locker.Waker].
func (Deaf) Orphaned(string, string) {}

// Wanted is a method of [locker.Waker].
func (Deaf) Wanted(string) {}

// Wake is a method of [locker.Waker].
func (Deaf) Wake(string) {}

// WakeAll is a method of [locker.Waker].
func (Deaf) WakeAll() {}

// Revoked is a method of [locker.Waker].
func (Deaf) Revoked(string, string) {}

// Recorded is a method of [locker.Waker].
func (Deaf) Recorded(string, string, string) {}
