// Package natslocker keeps locks in a bucket of NATS JetStream, for programs
// that have NATS already. Keys, queues, hand-overs, shared leases, permits,
// fencing tokens and records work as in other stores. Several keys are acquired
// one after the other, because a step has one key.
//
//	nats stream add KV_guard --subjects='$KV.guard.>' --storage=file --replicas=3 \
//	  --max-msgs-per-subject=1 --discard=new --allow-msg-ttl --deny-delete --defaults
//	g, err := guard.New(natslocker.New(nc, "guard"))
//
// The address for locker.FromDSN is
// nats://user:password@host:4222,host2/guard?creds=file&tls=true.
//
// NATS 2.11 or newer is needed for TTLs of messages. The bucket must have no
// TTL of its own and no history. It must not have markers of TTLs that ended,
// as "nats kv add --marker-ttl" makes them: the server may put one over a new
// lease. Check refuses all of these. Records beyond 750 kB need a max_payload
// of 2MB.
//
// The user may publish to $KV.guard.>, guard.guard.>,
// $JS.API.STREAM.INFO.KV_guard and $JS.API.STREAM.MSG.GET.KV_guard, and
// subscribe to guard.guard.> and _INBOX.>.
//
// All reads are from the leader of the bucket. Without a leader no call is
// answered. With three replicas the crash of a server process or of one machine
// loses nothing. NATS writes to disks every two minutes unless sync_interval is
// "always", so a power failure of all machines, or of the only one, may lose
// leases: two may then own a key. A bucket that was deleted or restored begins
// its fencing tokens anew. The clocks of the servers may differ by a second. A
// lease of a dead process ends up to four seconds late for processes that have
// never looked at the key. A record lasts one TTL longer when a process that
// has never seen it rewrites the row of its key.
package natslocker
