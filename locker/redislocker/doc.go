// Package redislocker keeps leases in Redis 5 or newer, or Valkey: a single
// server, Sentinel or Cluster.
//
//	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"))
//
// Keys are acquired by github.com/bsm/redislock, so a plain redislock user of
// the key "guard:{K}" and this locker exclude each other. Everything around it
// is here: renewal, releases that hand the key over, fencing tokens, the look
// at who holds a key, and the cleaning up after requests that had no answer.
//
// # In Redis
//
//	guard:{K}        string, for the lease's TTL    owner id (22 bytes), instance id (22 bytes), a line of JSON about the holder
//	guard:{K}:wait   sorted set, for 2 to 12 s      who waits for K: an entry for each claim, by its place
//	guard:{K}:due    sorted set, for 2 to 12 s      when each of them is to be seen again: its owner id, by that time in ms
//	guard:{K}:fence  string, for 20 minutes         the last fencing token given
//
// "guard" is [WithPrefix]'s. K is the key as the guard names it: with '%',
// braces and control bytes percent-encoded, or a hash of that if it is longer
// than 200 bytes; the braces keep all that belongs to one key on one node of a
// cluster. No key is without a TTL.
//
// The line begins with the version of what is stored, {"v":2, and with the long
// offer in ms. Processes of the version before, whose lines have no "v", may
// work on the same keys. A key that a newer version waits for is an error that
// says so.
//
// An entry is six characters and then what guard:{K} is set to when the key is
// handed to it: "m" if it is told by a message, or "l" if it only looks; "f" if
// it wants fencing tokens with the key, or "-"; and for how many ms the key is
// offered to it if it does not hear of it, in four digits. Its place is the
// time when it came, in µs by the server's clock, or one behind the last.
//
// # Waiting
//
// Whoever finds a key held queues for it, and each release hands the key to the
// first in the queue, in the same step and round trip: it stores the next
// owner's value for as long as the offer, and tells its process by a message to
// the channel guard:inbox:<instance id>. An instance subscribes to its own
// channel when it first waits, and who queues before that is confirmed only
// looks. The offer is a third of the TTL, but 1 to 5 s, if the message reaches
// a process, and else 1 s at most. In a cluster it is always that, for there
// nobody knows whom a message reaches.
//
//	offered MS OWNER TOKEN N KEY    the key is yours for so long, N wait behind you; TOKEN is the first of a block of
//	                                fencing tokens, or 0
//	wanted KEY                      for the holder: somebody has begun to wait
//	revoked OWNER KEY               for the holder: an operator has released the key
//
// A message is only a hint, and what is in the key the truth: a waiter looks
// again by itself every 125 to 250 ms (the half of guard.WithBackoff's longest
// pause to the whole, at least twice a second), when the holder's lease can
// end, and whenever the subscription is lost, or confirmed anew. So a message
// that is lost costs that long, and without the right to subscribe waiting is
// polling. A grant for nobody is given back, and handed on.
//
// A process that waits for 300 keys or more looks more rarely at those whose
// holders are guards, while its subscription is confirmed: N keys every N/2000
// to N/1000 s, and above 10,000 every 5 to 10 s. A message that is lost though
// the subscription is not then costs as long, or until the holder's lease can
// end. So does a queue that the server forgets. In a cluster nobody rests.
//
// A waiter whose message reaches nobody is passed over if its subscription was
// confirmed when it queued, or when it was allowed to look more rarely, or if
// it has not looked for 600 ms; in a cluster only the latter is known. So of
// those that die while they wait one costs an offer of 1 s, within the first
// 600 ms, and the others nothing. A waiter that is stopped, or whose machine
// vanishes, still seems to hear: it costs the long offer. A waiter that has not
// looked for 2 s, or for 1.5 s more than it was allowed to, is never handed the
// key.
//
// # Fencing
//
// With guard.WithFencing the token comes with a key that is handed over, or
// else is fetched by a second script in the request that acquires the key. Only
// a failover between the two, within the try limit of at most 500 ms after
// which an answer is not used any more, could give the older of two holders the
// higher token.
//
// # Rights
//
// A user in an ACL needs ~guard:* and +evalsha +eval +msetnx +mset +getrange
// +get +set +del +exists +pexpire +pttl +time +zadd +zrem +zrange +zscore
// +zcard, for messages &guard:inbox:* and +publish +subscribe +ping, with a
// database other than 0 +select, for the connections' names +client, for
// [Locker.List] +scan, and +info for [Locker.Check] to see the eviction policy,
// for [WithReplicas] +wait. [WithRawKeys] needs a pattern for its names as
// well.
//
// # Connections
//
// Leases do not share the caller's connections: behind busy ones they would
// miss their renewals. The locker makes a small client of its own from the way
// the caller's client reaches and authenticates with the server, with at most
// 16 connections per node (go-redis 9.23 adds up to 10 for pipelines) and one
// for the inbox, opened when needed, without retries, and with every time limit
// taken from the context. It does not take over hooks (see [WithHook]),
// OnConnect, a Limiter, or routing to replicas; [WithClient] is the way out.
//
// Connecting is no part of a try to acquire. The dial and the login go on in
// the background, for at most 2 s each, while tries wait for them, up to
// guard.WithMaxWait. TryAcquire and a MaxWait of 0 have the time of one try: if
// there is no connection by then they find the locker unavailable, and the next
// call finds the connection. Where two round trips are too long for a try, it
// obtains the key and looks at it in one request. So a server may be up to 400
// ms away, [WithReplicas] and a client of [WithClient] need about half of that,
// and [Locker.Check] says with the numbers what will not work. Hooks of
// [WithHook] see the dial, and not the login.
//
// They are called "guard" in CLIENT LIST, see [WithClientName].
//
// The caller's client must stay open for as long as the locker is.
//
// # Failover
//
// With [WithSentinel] the locker hears of a failover from the sentinels, and
// most of them decide. Of a Sentinel client alone it takes the way to find the
// primary, but not that news: instead, no connection is used for longer than 3
// s. A Cluster client learns from the answers of the nodes, and asks for the
// map of slots anew when it cannot reach one.
//
// A primary that is being replaced may still take requests that are lost:
// replication is asynchronous. A lost acquire can let two hold one key, until
// the first renews: that is what fencing tokens are for. A lost release would
// keep the key until its TTL; so in Sentinel and Cluster the locker keeps the
// releases of the last TTL, some thousand at most, and sends them once more
// when their keys live elsewhere. For as long as there are any, it asks the
// primary after a key several times a second. With a client of [WithClient] it
// does so in Cluster only.
package redislocker
