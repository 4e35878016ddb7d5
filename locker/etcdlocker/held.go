package etcdlocker

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// Held returns comparisons that hold while the lease in ctx owns its key. They
// are for the If of the caller's own transaction:
//
//	r, err := client.Txn(ctx).If(l.Held(ctx)...).Then(clientv3.OpPut("x", "1")).Commit()
//
// If r.Succeeded is false, the lease was lost and nothing was written. ctx is
// that of the function under the lease. With several leases of the guard of l
// in ctx, such as those of DoAll, all of them must hold.
//
// If ctx carries no such lease, or one of them was released, the comparison
// never holds. Held sends nothing, does not block, and is safe for concurrent
// use.
func (l *Locker) Held(ctx context.Context) []clientv3.Cmp {
	holds, ok := lockerkit.Holds(ctx, l)
	if !ok {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(l.prefix), "<", 0)}
	}
	var all []clientv3.Cmp
	for _, h := range holds {
		all = append(all, l.isOwner(h.Key, h.Owner, h.Limit)...)
	}
	return all
}
