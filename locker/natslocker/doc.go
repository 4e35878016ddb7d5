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
// NATS 2.11 or newer is needed for TTLs of messages. docs/stores.md has the
// rights of the user, and what else to know of buckets, clocks, and a power
// failure of all servers. Check refuses a bucket that may bring back or delete
// a lease.
//
// All reads are from the leader of the bucket. Without a leader no call is
// answered. With three replicas the crash of a server process or of one machine
// loses nothing. A bucket that was deleted or restored begins its fencing
// tokens anew.
package natslocker
