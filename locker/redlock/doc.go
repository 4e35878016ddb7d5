// Package redlock keeps each lease on a majority of independent Redis servers.
// It implements the Redlock algorithm with fencing tokens.
//
//	nodes := []redis.UniversalClient{a, b, c} // *redis.Client of three servers that share nothing
//	g, err := guard.New(redlock.New(nodes), guard.WithName("stock"), guard.WithFencing())
//
// The package is experimental. Until that word is gone, a minor version may
// change its functions and options, see docs/versions.md. Its promises about
// leases are tested like any other store's.
//
// The number of nodes N is odd and at least three. A quorum is q = N/2+1 nodes.
// Nodes do not replicate and have no Sentinel, because nobody would see a
// failover that forgets a lease. Each node is used as a redislocker with its
// layout, rights and connections. In addition the user needs the right +info.
// See package redislocker.
//
// A server counts only after it has been up for a minute. To try servers that
// you have just started, give New WithRestartDelay(0). See "Nodes that forget".
//
// # What it buys
//
// The service continues while a minority of the nodes is down, hangs, or cannot
// be reached. There is no failover to wait for. A node that does not answer
// costs no call more than [WithNodeLimit].
//
// No lease is forgotten as it is with a single server, where a primary may die
// before its replica knows of the lease. A second owner needs a quorum of its
// own, and two quorums share a node.
//
// # What it does not
//
// It is still a lease. A process may be paused for longer than the TTL, or a
// network may hold its request back for that long. Another process then owns
// the key. The guard warns the process beforehand by its own clock, but a
// paused process reads no clock.
//
// Martin Kleppmann's objection ("How to do distributed locking", 2016) is that
// no lock service can close this gap. He adds that Redlock had no number by
// which to reject the late process. Salvatore Sanfilippo's answer ("Is Redlock
// safe?") is that the time is checked after the quorum has answered. So a delay
// before that check grants nothing, and a pause after it can happen with every
// lock service. Both are right. Here each grant has a fencing token that rises,
// see below. If two owners at once would corrupt data, let the resource reject
// the lower token.
//
// The second objection concerns clocks. No absolute time is sent or compared,
// but a lease ends when the clocks of a quorum say so. Redlock allows for a
// clock that drifts by up to one percent. A clock that is stepped forward ends
// its leases early. Run NTP on the nodes in a mode that slews the clock.
//
// # Nodes that forget
//
// The third objection concerns memory. A node that restarts empty votes again,
// for somebody else. So a node counts as not answering until it has been up for
// [WithRestartDelay]. No TTL is longer than that, so every lease that the node
// knew has ended by then.
//
// The locker asks each new connection for uptime_in_seconds. So nothing between
// it and the node may keep connections open over a restart, as a proxy would.
// Also, do not step a node's clock forward right after its restart. The locker
// cannot see an event that wipes a node without a restart, such as FLUSHALL,
// eviction or a restored image of the machine.
//
// So restart nodes one at a time, a restart delay apart. If a quorum restarts
// at once, nobody gets a key until the restart delay is over.
//
// The table shows how many nodes may lose a lease at once, unseen, before
// another claim can get the key beside its owner:
//
//	nodes that may lose it = held + q - N - 1
//
//	N   q   held on q   held on all
//	3   2   0           1
//	5   3   0           2
//	7   4   0           3
//
// So a lease does not stay on a bare quorum. The other nodes are asked again in
// the background, at first after some milliseconds, and with each renewal at
// the latest. [Locker.Held] reports on how many nodes the key is held so far.
//
// A node that was added later can replace a node that forgets, but only from
// the next renewal on. Before that it may have been added too late. A lease
// that has lost its quorum is lost. It is never put together again.
//
// # Acquiring
//
// All nodes are asked at once, each within the node's limit. The claim owns the
// key if q nodes say so in time. The time is counted from before the first
// request was sent. It must be less than the TTL minus the drift. The guard
// works out how much of the TTL is left.
//
// A claim without enough votes gives its votes back on every node. A vote that
// cannot be given back is cleaned up by owner id, at once and again a second
// later. If no claim has a quorum, the claim with the most votes keeps them and
// asks again. It does so after a random pause of up to two round trips. If two
// claims have equally many votes, the one that began to contend first keeps
// them. All others give theirs back.
//
// # Waiting
//
// A waiting claim is queued on every node. A release lets each node reserve its
// part for the first claim in its queue. The reservation lasts as long as the
// offer, at most a second. These parts are votes and not a grant. The locker
// wakes the claim when a quorum has reserved, or some milliseconds after the
// first message. The answers of the nodes then decide.
//
// So claims that do not wait cannot barge in on a released key. A claim that
// comes too late for a reservation loses nothing but time. The order is that of
// the nodes' clocks.
//
// # Fencing
//
// Each node has a counter of its own, ahead of its own clock. See package
// redislocker. A token is the highest of the tokens that a quorum has reserved.
// Before the lease is handed out, a second request makes a quorum store that
// token. So every later quorum has a node that knows it. That costs one more
// round trip.
//
// Tokens rise per key as long as no more nodes lose their counter than the
// table allows. Beyond that they still rise if the nodes' clocks agree well
// enough. They must differ by less than the time for which a lost node was held
// out.
//
// # What it costs
//
// A lease that is acquired and released costs two commands on every node, or
// three with fencing. All nodes work at the same time. That is N times the work
// of one server, and the time of the slowest node of the fastest quorum.
//
// The following was measured with all servers and clients on the two cores of
// one busy machine, where only the amount of work counts. A pair of acquire and
// release took 8 times as long on three nodes as on one server, and 19 times on
// five. With fencing it took 7 and 12 times as long. With 16 callers on keys of
// their own it took 6 and 15 times as long. A hot key of four processes was
// handed over 5 and 15 times as slowly. For machines of their own, measure it
// yourself:
//
//	go test -run xxx -bench Price -benchtime 2s ./locker/redlock
//
// # When not to use it
//
// If a lock only saves work, use one server. It is faster, hands keys over
// itself, and needs a third of the machines.
//
// If losing one server's last second is worse than a minute without service,
// use one server with "appendfsync always".
//
// If two owners at once must never happen, no lease is enough. Use the token, a
// constraint in the database, or a consensus store with a transaction that
// checks the lease.
//
// If several claims are to own a key at once, shared or as permits, use one
// server. This locker has no shares. Each node would let n permits in, so up to
// N*n/q claims could each find a quorum.
//
// Redlock is for the cases in between. The lock must continue when a machine
// dies, and the resource checks tokens or can bear a rare second run.
package redlock
