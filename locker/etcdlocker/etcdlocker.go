package etcdlocker

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// store names this package in errors.
const store = "etcdlocker"

// Locker is a [locker.Locker] on etcd, for one guard. All methods but Open are
// safe for concurrent use.
//
// A Locker has one goroutine that watches its inbox from the first Acquire on,
// one that renews the etcd lease of its places in queues, and a few that send
// transactions. All end with Close.
type Locker struct {
	*base

	rows *rows
}

// base has the methods of package locker, which guard calls.
type base = rowlocker.Locker

// New returns a Locker that keeps leases by client. New sends nothing. The
// caller closes client, after the Locker.
func New(client *clientv3.Client, opts ...Option) *Locker {
	r := newRows(client)
	for _, o := range opts {
		o(r)
	}
	return &Locker{rowlocker.New(r), r}
}

// Option changes a setting of a [Locker]. guard.New reports a wrong one as
// ErrInvalidOption.
type Option func(*rows)

// WithPrefix sets the beginning of all keys in etcd. Processes exclude each
// other if they have the same prefix. The default is "guard/".
func WithPrefix(prefix string) Option { return func(r *rows) { r.prefix = prefix } }

// WithMembers names clients of single members, each made with one endpoint. The
// Locker uses one of all its clients at a time, New's first. If that gives no
// answer, it goes on with the next.
//
// A client of several endpoints sends requests to all in turn. If a member
// hangs, it needs 10 s and more to find out, and until then some requests get
// no answer. A silent member is then not told from a silent etcd, so that calls
// do not learn early of an outage, and guard.WithFailOpen has no effect.
func WithMembers(clients ...*clientv3.Client) Option {
	return func(r *rows) { r.members = append(r.members, clients...) }
}

// granularity is how much later etcd may end a lease. TTLs are whole seconds,
// and etcd looks for ended leases twice a second.
const granularity = 3 * time.Second

// limits say how late leases end if their process has died, see the package.
var limits = locker.Limits{Late: locker.LookEvery, LateForOthers: rotation + granularity}

// Held returns comparisons that hold while the lease in ctx owns its key, for
// the If of the caller's own transaction:
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
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(l.rows.prefix), "<", 0)}
	}
	var all []clientv3.Cmp
	for _, h := range holds {
		all = append(all, l.rows.isOwner(h)...)
	}
	return all
}
