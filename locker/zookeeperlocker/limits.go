package zookeeperlocker

import "github.com/go-lockguard/guard/locker"

// Limits returns how late leases end if their process has died.
//
// A process that waits for a key looks at it at least every [locker.LookEvery],
// and measures the TTL of a dead holder from its first look after the last
// renewal. A process that never looked before finds the key until the janitor
// frees it. If no process was there to be the janitor, both times begin with
// the first process that is.
func (*Locker) Limits() locker.Limits {
	return locker.Limits{Late: locker.LookEvery, LateForOthers: 5 * sweepEvery}
}
