// Package etcdlocker keeps leases in etcd 3.5.3 or newer.
//
//	client, err := clientv3.New(clientv3.Config{
//		Endpoints:            []string{"a:2379", "b:2379", "c:2379"},
//		DialKeepAliveTime:    5 * time.Second, // else a connection that was cut is noticed after minutes
//		DialKeepAliveTimeout: time.Second,
//	})
//	g, err := guard.New(etcdlocker.New(client))
//
// TLS, user and password are the client's. The caller closes the client, after
// the guard.
//
// [locker.FromDSN] makes a client for each host, see [WithMembers]:
//
//	etcd://[user:password@]a:2379,b:2379,c:2379[?prefix=guard/]
//	etcds://a:2379?ca=ca.pem&cert=app.pem&key=app-key.pem
//
// etcds is etcd with TLS. Without ca, the system's certificates are trusted.
//
// # What it is good for
//
// A lease survives the crash of any member while a majority lives. All answers
// come from that majority, so no failover forgets a lease. [Locker.Held] puts
// the lease into the If of the caller's own etcd transaction, which then needs
// no fencing token.
//
// Each hand-over and each renewal is a write to the log of etcd. Choose a TTL
// of 3 s or more, because an election of a new leader takes 1 s to 1.5 s, and a
// shorter lease may not survive it. Where speed matters more than survival,
// redislocker is faster.
//
// # How it keeps time
//
// The TTL stands beside the owner id in the key. Each process that finds a key
// held measures that TTL by its own monotonic clock, from its first sight of
// the key's revision, and takes the key by a comparison of that revision. A
// lease therefore ends late, never early. The clocks of the processes and of
// etcd need not agree.
//
// A process that waits for a key looks at it at least every [locker.LookEvery],
// and every 250 ms with guard's default backoff. It measures the TTL of a dead
// holder from its first look after the last renewal. A process that never
// looked before finds the key until etcd deletes it. With a TTL of more than 50
// minutes, a thousandth of the TTL is added. An election of a new leader
// prolongs all etcd leases, and may add the TTL once more.
//
// Each process also keeps etcd leases, one for its places in queues and one for
// each TTL that it uses. These leases only remove the keys of a dead process.
//
// # Shared leases, permits and several keys
//
// While only shared claims own a lock, each has a key of its own beside it, so
// that they come, renew and go without a word to each other. A claim that waits
// for several owners to go keeps new ones out, for as long as its process has a
// pulse, which ends some 3 s after that process has died.
//
// One transaction takes all keys of a DoAll, or none. Their releases travel
// together.
//
// # Results
//
// The transaction that frees the key of a guard.Once writes the result, and
// compares that the key is still ours, so no failover loses it. A result ends
// up to 6 s after its TTL, never before. With a TTL of more than 50 minutes, a
// thousandth of the TTL is added.
//
// A result of 1 MiB, the most that a guard can be told to keep, fits into the
// 1.5 MiB of a request that etcd takes by default. All results are in etcd's
// database, whose quota is 2 GiB by default, until a compaction after their
// end.
//
// # Rights
//
// With etcd's authentication the user needs one role, with read and write on
// the keys that begin with the prefix:
//
//	etcdctl role add guard
//	etcdctl role grant-permission guard --prefix=true readwrite guard/
//	etcdctl user grant-role app guard
//
// # Settings of the server
//
// Switch compaction on, and run three members or five. docs/stores.md says how,
// and what a backup needs. Do not use the etcd of a Kubernetes cluster. Its API
// server counts on having it alone.
package etcdlocker
