// Package redlock keeps each lease on a majority of independent Redis servers:
// the Redlock algorithm, with fencing tokens.
//
//	nodes := []redis.UniversalClient{a, b, c} // *redis.Client of three servers that share nothing
//	g, err := guard.New(redlock.New(nodes), guard.WithName("stock"), guard.WithFencing())
//
// N is odd, three or more; q = N/2+1 is a quorum. Nodes do not replicate and
// have no Sentinel: a failover that forgets a lease would not be seen. Each is
// a redislocker, with its layout, rights (+info as well) and connections, see
// package redislocker.
//
// Servers that you have just started count after a minute: to try it out, give
// New WithHoldOut(0), see "Nodes that forget".
//
// # What it buys
//
// The service goes on while a minority of the nodes is down, hangs, or cannot
// be reached, without a failover and without waiting for one: a node that does
// not answer costs nobody more than [WithNodeLimit]. And no lease is forgotten
// as a single server's is when its primary dies before the replica knew: a
// second owner needs a quorum of its own, and two quorums share a node.
//
// # What it does not
//
// It is a lease all the same. A process that is paused for longer than the TTL,
// or a network that holds its request back for so long, finds that another owns
// the key; the guard tells it beforehand by its own clock, but a paused process
// reads no clock. Martin Kleppmann's objection ("How to do distributed
// locking", 2016) is that no lock service can close this, and that Redlock had
// no number to reject the late one with. Salvatore Sanfilippo's answer ("Is
// Redlock safe?") is that the time is checked after the quorum has answered, so
// a delay before that grants nothing; a pause behind it is everybody's. Both
// are right. Here each grant has a fencing token that rises, see below: where
// two at once would corrupt data, let the resource reject the lower one.
//
// The second objection is to clocks. No absolute time is sent or compared, but
// a lease ends when the clocks of a quorum say so. A clock that drifts by up to
// one percent is allowed for; one that is stepped forward ends its leases
// early. Nodes should run NTP that slews.
//
// # Nodes that forget
//
// The third is to memory: a node that restarts empty votes again, for somebody
// else. So a node counts as not answering until it has been up for
// [WithHoldOut], which is no shorter than any TTL: every lease that it knew has
// ended. The locker asks each new connection for uptime_in_seconds; so nothing
// may stand between it and the node that keeps connections over a restart, such
// as a proxy, and the clock of a node must not be stepped forward right behind
// one. What wipes a node without a restart (FLUSHALL, eviction, a restored
// image of the machine) is not seen. So restart nodes one at a time, a hold-out
// apart: when a quorum has started at once, nobody gets a key until that is
// over.
//
// How many nodes may lose a lease at once, unseen, before another can get it
// beside its owner:
//
//	nodes that may lose it = held + q - N - 1
//
//	N   q   held on q   held on all
//	3   2   0           1
//	5   3   0           2
//	7   4   0           3
//
// Hence a lease does not stay on a bare quorum: the other nodes are asked again
// in the background, at first after some milliseconds and then with each
// renewal at the latest. [Locker.Held] tells how far it has come. A node that
// was taken makes up for one that forgets only from the next renewal on, for it
// may have been taken too late: a lease that has lost its quorum is lost, and
// never put together again.
//
// # Acquiring
//
// All nodes are asked at once, each within the node's limit. The key is owned
// if q of them say so within the TTL less the time since before the first was
// sent and less the drift; what is left of the TTL is the guard's to reckon
// with. Votes that are not enough are given back, on every node; one that
// cannot be is cleaned up by owner id, at once and again a second later. If
// nobody has a quorum, who has most votes (of two the one who began to contend
// first) keeps them and asks again, after a random pause of up to two round
// trips; all others give theirs back.
//
// # Waiting
//
// Who waits is queued on every node, and a release lets each node reserve its
// part for the first in its queue, for the offer of a second at most. Those
// parts are votes, no grant: the locker wakes the claim when a quorum has
// reserved, or some milliseconds after the first, and what the nodes answer
// then decides. So a released key is not for those who barge, and whoever comes
// late for a reservation loses nothing but time. The order is that of the
// nodes' clocks.
//
// # Fencing
//
// Each node has a counter of its own, ahead of its own clock, see package
// redislocker. A token is the highest of those that a quorum has reserved; then
// a second request makes a quorum store it before the lease is handed out, so
// every later quorum has a node that knows it. That is one round trip more.
// Tokens rise per key as long as no more nodes lose their counter than the
// table allows, and beyond it if the nodes' clocks differ by less than a lost
// node was held out.
//
// # What it costs
//
// Two commands on every node for a lease that is acquired and released, four
// with fencing, at the same time on all of them: N times the work of one
// server, and the time of the slower node of the fastest quorum. With all
// servers and clients on the two cores of one busy machine, where the work is
// all that counts, a pair took 8 times as long on three nodes as on one server,
// and 19 on five; with fencing 7 and 12, with 16 callers on keys of their own 6
// and 15, and a hot key of four processes was handed over 5 and 15 times as
// slowly. On machines of their own see for yourself:
//
//	go test -run xxx -bench Price -benchtime 2s ./locker/redlock
//
// # When not to use it
//
// If a lock only saves work, one server does: it is faster, hands keys over
// itself, and needs a third of the machines. If losing one server's last second
// is worse than a minute without service, use one server with "appendfsync
// always". If two owners at once must never happen, no lease is the means: use
// the token, a constraint in the database, or a consensus store with a
// transaction that checks the lease. Redlock is for what is between: a lock
// that must go on when a machine dies, for a resource that checks tokens, or
// that bears a rare second run.
package redlock
