package etcdlocker

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// What stands in etcd. All of one lock stands side by side, because a Claim.Key
// has no braces.
//
//	<prefix>{K}                            owner id, '/', JSON of record; under a lease of the owner's process
//	<prefix>{K}/m/p-<id>                   the same of a claim with a permit; there is no <prefix>{K} beside it
//	<prefix>{K}/m/s-<id>                   the same of a shared claim
//	<prefix>{K}/q/<place>-<revision>-<id>  JSON of entry: a claim in the queue; under a short lease of its process
//	<prefix>i/<instance>                   the inbox of a locker: each put is a message, the value is the last one
//	<prefix>r/{K}                          recorded: what the last Keep or Begin has left; under a lease for its TTL

// names makes the keys that stand in etcd, and comparisons of them.
type names struct{ prefix string }

func (n names) lockKey(key string) string { return n.prefix + "{" + key + "}" }

func (n names) queueOf(key string) string { return n.lockKey(key) + "/q/" }

func (n names) permitsOf(key string) string { return n.lockKey(key) + "/m/p-" }

func (n names) sharesOf(key string) string { return n.lockKey(key) + "/m/s-" }

func (n names) recordKey(key string) string { return n.prefix + "r/{" + key + "}" }

func (n names) inboxOf(instance string) string { return n.prefix + "i/" + instance }

func (n names) placeKey(key string, p locker.Place) string {
	return fmt.Sprintf("%s%016x-", n.queueOf(key), uint64(p))
}

// entryKey returns the key of a claim in the queue. Claims with the same place
// stand in the order of the revisions at which they came.
func (n names) entryKey(key string, p locker.Place, rev int64, owner string) string {
	return fmt.Sprintf("%s%016x-%s", n.placeKey(key, p), uint64(rev), owner)
}

// placeOf returns the place that an entry's key tells, or 0.
func placeOf(entryKey string) locker.Place {
	const digits = 16
	i := strings.LastIndex(entryKey, "/q/") + len("/q/")
	if len(entryKey) < i+digits {
		return 0
	}
	p, _ := strconv.ParseUint(entryKey[i:i+digits], 16, 63)
	return locker.Place(p)
}

// ownKey returns the key that an owner with this limit has.
func (n names) ownKey(key, owner string, limit int) string {
	switch {
	case limit == locker.NoLimit:
		return n.sharesOf(key) + owner
	case limit > 1:
		return n.permitsOf(key) + owner
	}
	return n.lockKey(key)
}

// record is what stands behind the owner id in the key.
type record struct {
	TTL    int64         `json:"t"`           // in ms, from the first sight of the key's revision
	Limit  int           `json:"n,omitempty"` // 0: the claim owns the key alone
	Holder locker.Holder `json:"h"`
}

func (r record) ttl() time.Duration { return time.Duration(r.TTL) * time.Millisecond }

// sight is the first sight of a key with this record. The value of a stranger
// has none, and never ends.
func (r record) sight(kv *mvccpb.KeyValue, ours bool, now time.Time) lockerkit.Sight {
	s := lockerkit.Sight{Revision: kv.ModRevision}
	if ours {
		s.Ends = now.Add(r.ttl())
	}
	return s
}

func recordOf(c *locker.Claim, ttl time.Duration) record {
	r := record{TTL: ttl.Milliseconds(), Holder: c.Holder}
	if c.Limit > 1 {
		r.Limit = c.Limit
	}
	return r
}

func lockValue(owner string, r record) string { return owner + "/" + encode(r) }

// parse takes the value of a key apart. ok is false for the value of a
// stranger.
func parse(value []byte) (owner string, r record, ok bool) {
	if len(value) <= locker.OwnerLen || value[locker.OwnerLen] != '/' {
		return "", r, false
	}
	if json.Unmarshal(value[locker.OwnerLen+1:], &r) != nil {
		return "", r, false
	}
	return string(value[:locker.OwnerLen]), r, true
}

// entry is a claim in the queue, with all that a Release needs to make it the
// owner.
type entry struct {
	Owner  string `json:"o"`
	Lease  int64  `json:"l"`           // of its process, for the offer
	Fence  bool   `json:"f,omitempty"` // it wants a block of tokens
	Offer  int64  `json:"d"`           // in ms
	Recall bool   `json:"c,omitempty"` // a record takes it out of the queue
	Record record `json:"r"`
}

func entryOf(c *locker.Claim, lease clientv3.LeaseID) entry {
	return entry{
		Owner: c.Owner, Lease: int64(lease), Fence: c.Fencing,
		Offer:  c.ShortOffer().Milliseconds(), // nobody knows whether its process still lives
		Recall: c.Recall,
		Record: recordOf(c, c.TTL),
	}
}

// queued is an entry as it stands in etcd. Keys are bytes, because JSON keeps
// no text that is not UTF-8.
type queued struct {
	Key   []byte `json:"k"`
	Value []byte `json:"v"`
}

func queuedOf(kvs []*mvccpb.KeyValue) []queued {
	qs := make([]queued, len(kvs))
	for i, kv := range kvs {
		qs[i] = queued{kv.Key, kv.Value}
	}
	return qs
}

// message is what a put into an inbox says.
type message struct {
	Kind    kind     `json:"m"`
	Key     []byte   `json:"k"` // Claim.Key
	Owner   string   `json:"o,omitempty"`
	Fence   bool     `json:"f,omitempty"`
	Offer   int64    `json:"d,omitempty"` // in ms
	Waiting int      `json:"n,omitempty"` // claims behind the new owner
	Queue   []queued `json:"q,omitempty"` // the first of them; of a wanted message, the new one
	Value   []byte   `json:"v,omitempty"` // of a record, if it is short
	Limit   int      `json:"l,omitempty"` // of Owner, if others may own Key beside it
	Nth     int      `json:"i,omitempty"` // among those that got Key in this revision

	And []message `json:"a,omitempty"` // further messages of the same revision
}

type kind string

const (
	granted kind = "g" // Owner has got Key
	wanted  kind = "w" // another claim waits for Key
	revoked kind = "r" // Owner was made to lose Key
	nothing kind = "f" // written for its revision

	hasRecord kind = "k" // Owner has left the queue, because there is a record
)

// encode returns JSON of a value that has one.
func encode(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// token returns a block of fencing tokens for the nth claim that got a key in a
// revision. Each write has a revision of its own, and a later one has a higher.
func token(revision int64, nth int) uint64 {
	return (uint64(revision)*grantsMax + uint64(nth)) * locker.FenceBlock
}

// owns compares the value by prefix: owner/ < value < owner0, because '0'
// follows '/'.
func owns(lockKey, owner string) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(lockKey), ">", owner+"/"),
		clientv3.Compare(clientv3.Value(lockKey), "<", owner+"0"),
	}
}

// isOwner says that the owner has the key, or its share of it.
func (n names) isOwner(key, owner string, limit int) []clientv3.Cmp {
	if limit > 1 {
		return []clientv3.Cmp{exists(n.ownKey(key, owner, limit))}
	}
	return owns(n.lockKey(key), owner)
}

// nobodys says that nobody owns the key. All keys of its owners stand from lockKey
// to ownersEnd.
func (n names) nobodys(key string) clientv3.Cmp { return none(n.lockKey(key), n.ownersEnd(key)) }

// ownersEnd is behind the keys that begin with {K}/m/, because '0' follows '/'.
func (n names) ownersEnd(key string) string { return n.lockKey(key) + "/m0" }

// owners reads who owns the key.
func (n names) owners(key string) clientv3.Op {
	return clientv3.OpGet(n.lockKey(key), clientv3.WithRange(n.ownersEnd(key)))
}

func exists(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), ">", 0) }

func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

// unchanged says that the key stands as it did at a revision.
func unchanged(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

// none says that there is no key in [from, to).
func none(from, to string) clientv3.Cmp { return absent(from).WithRange(to) }

func endOf(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }
