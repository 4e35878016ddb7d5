package etcdlocker

import (
	"time"

	"github.com/go-lockguard/guard/locker"
)

// granularity is how much later etcd may end a lease. TTLs are whole seconds,
// and etcd looks for ended leases twice a second.
const granularity = 3 * time.Second

// Limits returns how late leases end if their process has died.
//
// A process that waits for a key looks at it at least every [locker.LookEvery],
// and every 250 ms with guard's default backoff. It measures the TTL of a dead
// holder from its first look after the last renewal.
//
// A process that never looked before finds the key until etcd deletes it. With
// a TTL of more than 50 minutes, a thousandth of the TTL is added. An election
// of a new leader prolongs all etcd leases, and may add the TTL once more.
func (*Locker) Limits() locker.Limits {
	return locker.Limits{Late: locker.LookEvery, LateForOthers: rotation + granularity}
}
