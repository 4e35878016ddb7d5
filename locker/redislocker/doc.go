// Package redislocker keeps leases in Redis 5 or newer, or in Valkey. The
// server may be single, under Sentinel or a Cluster.
//
//	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
//
// A claim's first request is SET with NX and PX, of the value that
// github.com/bsm/redislock would set. Each later one is redislock's own script,
// which knows an owner that comes again. A claim with fencing has a script that
// takes the key and its tokens. So a plain redislock user of the key
// "guard:{K}" and this locker exclude each other. This package adds everything
// around it:
//
//   - renewal
//   - releases that hand the key over
//   - fencing tokens
//   - the look at the holder of a key
//   - the clean-up after requests without an answer
//
// # In Redis
//
//	guard:{K}        string, for the lease's TTL    owner id (22 bytes), instance id (22 bytes), JSON about the holder
//	guard:{K}:wait   sorted set, for 2 to 12 s      the queue: an entry for each claim that waits for K, by its place
//	guard:{K}:due    sorted set, for 2 to 12 s      the owner id of each claim, by the ms when it must be seen again
//	guard:{K}:crowd  sorted set, as guard:{K}       several owners: the entry of each, by the ms when its share ends
//	guard:{K}:fence  string, for 20 minutes         the last fencing token given
//	guard:{K}:kept   string, for its own TTL        a record: the owner id of the claim that kept it, and the value;
//	                                                a mark has "*" in front
//
// "guard" is the prefix of [WithPrefix]. K is the key as the guard names it,
// with '%', braces and control bytes percent-encoded. If that is longer than
// 200 bytes, K is a hash of it. The braces keep all entries of one key on one
// node of a cluster. No key is without a TTL.
//
// If several claims with limits own K, guard:{K} has no owner id. It begins
// with "*guard:several-own-it*", lasts as long as the last share, and is a key
// that somebody else holds to a plain redislock user.
//
// The line of JSON begins with the version of the stored format, {"v":1, and
// with the long offer in ms. If a newer version waits for a key, the call
// returns an error that says so.
//
// An entry has the value that guard:{K} gets when the key is handed to this
// claim. Its place is its time of arrival, in µs by the server's clock.
//
// # Waiting
//
// A claim that finds its key held joins the queue. Each release hands the key
// to the first claim in the queue, in the same step and round trip. It stores
// the next owner's value for as long as the offer. It also tells the owner's
// process by a message to the channel guard:inbox:<instance id>.
//
// An instance subscribes to its own channel when it first waits. A claim that
// is queued before the subscription is confirmed only looks. If the server counts
// a process that hears the channel, the offer is a third of the TTL, but at least
// 1 s and at most 5 s. Otherwise it is at most 1 s. In a cluster it is always at
// most 1 s, because no server there knows who hears. So it is where the user has
// no right to ask.
//
// A message is only a hint. The key holds the truth. So a waiter looks again by
// itself every 125 to 250 ms (half to all of the longest pause of
// guard.WithBackoff, at least twice a second). It also looks when the holder's
// lease can end, and when the subscription is lost or confirmed anew. A lost
// message costs no more than that. Without the right to subscribe, waiting is
// polling. A grant for nobody is given back and handed on.
//
// A process that waits for very many keys looks more rarely, see
// docs/how-it-works.md. It does so only while its subscription is confirmed. In
// a cluster no claim rests.
//
// A waiter whose channel nobody hears is passed over in three cases:
//
//   - Its subscription was confirmed when it queued.
//   - Its subscription was confirmed when it was allowed to look more rarely.
//   - It has not looked for 600 ms. In a cluster only this case is known.
//
// So if several waiters die, one of them costs an offer of 1 s, within the
// first 600 ms. The others cost nothing. A waiter that is stopped, or whose
// machine vanishes, still seems to hear and costs the long offer. A waiter that
// has not looked for 2 s, or for 1.5 s more than it was allowed to, is never
// handed the key.
//
// # Fencing
//
// With guard.WithFencing the token comes with the key, in the same step.
//
// # Rights
//
// A user in an ACL needs these rights:
//
//   - for leases: ~guard:* +evalsha +eval +msetnx +mset +getrange +get +set
//     +del +exists +pexpire +pttl +time +zadd +zrem +zrange +zscore +zcard
//   - for messages: &guard:inbox:* +publish +subscribe +ping +pubsub|numsub
//   - for a database other than 0: +select
//   - for the connections' names: +client
//   - for [Locker.List]: +scan
//   - for [Locker.Check] to see the eviction policy, and other writers: +info
//   - for [WithReplicas]: +wait
//   - for [WithKeyNames]: a pattern for its names as well
//
// Shared claims and permits need no others.
//
// # Connections
//
// Leases do not share the caller's connections, because behind busy ones they
// would miss their renewals. The locker makes a small client of its own. This
// client reaches the server and authenticates as the caller's client does. It
// has at most 16 connections per node, and one more for the inbox. Connections
// are opened when needed. The client does not retry, and it takes every time
// limit from the context. It does not take over hooks (see [WithHook]),
// OnConnect, a Limiter, or routing to replicas. Use [WithClient] if you need
// those.
//
// Connecting is not part of a try to acquire. The dial and the login go on in
// the background, for at most 2 s each. Tries wait for them, up to
// guard.WithMaxWait. TryAcquire and a MaxWait of 0 have the time of one try. If
// there is no connection by then, they find the locker unavailable, and the
// next call finds the connection.
//
// If two round trips are too long for a try, it obtains the key and looks at it
// in one request. So a server may be up to 400 ms away. With [WithReplicas], or
// with a client of [WithClient], the limit is about half of that.
// [Locker.Check] reports what will not work, with the numbers. Hooks of
// [WithHook] see the dial, but not the login.
//
// The connections are called "guard" in CLIENT LIST, see [WithClientName].
//
// The caller's client must stay open for as long as the locker is.
//
// # Failover
//
// With [WithSentinel] the locker hears of a failover from the sentinels, and
// their majority decides. A Sentinel client alone gives the locker the way to
// find the primary, but no news of a failover. Instead no connection is used
// for longer than 3 s. A Cluster client learns from the answers of the nodes.
// It asks for the map of slots anew when it cannot reach a node.
//
// A primary that is being replaced may still take requests that are lost,
// because replication is asynchronous. A lost acquire can let two hold one key
// until the first of them renews. Fencing tokens are the protection against
// that. A lost release would keep the key until its TTL. So in Sentinel and
// Cluster the locker keeps the releases of the last TTL, at most some thousand.
// It sends them once more when their keys live elsewhere. As long as it keeps
// any, it asks the primary after a key several times a second. With a client of
// [WithClient] it does so in Cluster only. Servers behind one address look like
// one server, and a release that they lose keeps its key until the TTL.
package redislocker
