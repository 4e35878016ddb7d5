// Package zookeeperlocker keeps leases in ZooKeeper 3.5.5 or newer.
//
//	servers := []string{"a:2181", "b:2181", "c:2181"}
//	conn, _, err := zk.Connect(servers, 10*time.Second)
//	g, err := guard.New(zookeeperlocker.New(conn))
//
// TLS and logins are the connection's, by zk.WithDialer and AddAuth. The caller
// closes the connection, after the guard.
//
// [locker.FromDSN] makes the connection. The path is the prefix of all nodes,
// /guard if there is none:
//
//	zk://a:2181,b:2181,c:2181/prefix
//
// # What it is good for
//
// It is for those who run ZooKeeper already. It has all modes: shared leases
// and permits, several keys in one step, results of Once, at-most-once marks,
// and keys that linger. A lease survives the crash of any server while a
// majority lives, and no failover forgets one. Each acquire, renewal and
// hand-over is a write to the log of ZooKeeper, and the calls of a process
// travel together, up to 50 in a transaction. Choose a TTL of 3 s or more,
// because a lease must outlive the election of a new leader.
//
// # How it keeps time
//
// A key is not an ephemeral node, because such a node goes with the session. A
// session may be shorter than the TTL, and it ends as soon as the user closes
// the connection. So keys are persistent. The TTL stands beside the owner id.
// Each process that finds a key held measures the TTL by its own monotonic
// clock, from its first sight of the key's version. It takes the key by a
// comparison of that version. So a lease ends late, never early, and the clocks
// of processes and servers need not agree. Only claims in the queue and
// messages are ephemeral: a claim waits as long as the session of its process.
//
// One of the processes is the janitor. It frees the keys of dead processes for
// which nobody waits.
//
// A process that waits for a key looks at it at least every [locker.LookEvery],
// and measures the TTL of a dead holder from its first look after the last
// renewal. A process that never looked before finds the key until the janitor
// frees it. If no process was there to be the janitor, both times begin with
// the first process that is.
//
// # Limits
//
// ZooKeeper takes requests of up to 1 MB. A key for which some thousands of
// processes wait is too long for that: those who come then get an error. A
// result of more than 600 KB takes a second request.
//
// # Rights
//
// The user needs all rights but admin below the prefix. [WithACL] says what the
// new nodes get. By default anybody may read and write them.
//
//	conn.AddAuth("digest", []byte("app:password"))
//	g, err := guard.New(zookeeperlocker.New(conn,
//		zookeeperlocker.WithACL(zk.DigestACL(zk.PermAll, "app", "password")...)))
package zookeeperlocker
