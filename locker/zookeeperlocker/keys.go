package zookeeperlocker

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// What stands in ZooKeeper. A key's directory is a container, which ZooKeeper
// deletes some time after its last child. There are 16 shards, because the
// answer to a listing is limited to 1 MB.
//
// Only o says who owns a key. The owner changes it by a comparison of the
// version that it wrote or read, and of its badge, because versions begin anew
// with a new node, and owner ids do not. Whoever takes or frees a key removes
// the badges of all others, so that a key which a hand has damaged comes right.
//
//	<root>/k/<shard>/<key>                 the directory; its version grows with each change of the queue but a deletion
//	<root>/k/<shard>/<key>/o               owner id, '/', JSON of record; while the key is owned
//	<root>/k/<shard>/<key>/h-<owner>       the owner's badge, as long as o
//	<root>/k/<shard>/<key>/q-<place>-<zxid>-<owner>  JSON of entry: a claim in the queue; ephemeral
//	<root>/f                               written for fencing tokens
//	<root>/j                               who is the janitor
const (
	ownerNode   = "/o"
	badgePrefix = "/h-"
	queuePrefix = "q-"
	shards      = 16
)

func (s *settings) shard(i uint32) string { return fmt.Sprintf("%s/k/%x", s.root, i%shards) }

func (s *settings) fenceNode() string { return s.root + "/f" }

func (s *settings) janitorNode() string { return s.root + "/j" }

// dir returns the directory of a key.
func (s *settings) dir(key string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return s.shard(h.Sum32()) + "/" + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// keyOf is the reverse of dir, for the last name of the path.
func keyOf(name string) (key string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(name)
	return string(b), err == nil && len(b) > 0
}

// entryName returns the name of a claim in the queue. Claims with the same
// place stand in the order in which they came.
func entryName(p locker.Place, zxid int64, owner string) string {
	return fmt.Sprintf("%s%016x-%016x-%s", queuePrefix, uint64(p), uint64(zxid), owner)
}

// placeOf returns the place that the name of an entry tells, or 0.
func placeOf(name string) locker.Place {
	const digits = 16
	name = name[strings.LastIndex(name, "/")+1:]
	if len(name) < len(queuePrefix)+digits {
		return 0
	}
	p, _ := strconv.ParseUint(name[len(queuePrefix):len(queuePrefix)+digits], 16, 63)
	return locker.Place(p)
}

// record is what stands behind the owner id. The last four fields are of a
// hand-over, for the new owner.
type record struct {
	TTL    int64         `json:"t"` // in ms, from the first sight of the version
	Holder locker.Holder `json:"h"`

	Fence   bool     `json:"f,omitempty"`
	Waiting int      `json:"w,omitempty"` // claims behind the new owner
	Version int32    `json:"v,omitempty"` // of the directory, with this change
	Queue   []queued `json:"q,omitempty"` // the first of them
}

func (r record) ttl() time.Duration { return time.Duration(r.TTL) * time.Millisecond }

// sight is the first sight of an owner node with this record. The value of a
// stranger has none, and never ends.
func (r record) sight(node *zk.Stat, ours bool, now time.Time) lockerkit.Sight {
	s := lockerkit.Sight{Revision: node.Mzxid}
	if ours {
		s.Ends = now.Add(r.ttl())
	}
	return s
}

func recordOf(c *locker.Claim) record { return record{TTL: c.TTL.Milliseconds(), Holder: c.Holder} }

// queued is an entry, with its value if that is known.
type queued struct {
	Name  string `json:"n"`
	Value []byte `json:"v,omitempty"`
}

// entry is a claim in the queue, with all that a Release needs to make it the
// owner.
type entry struct {
	Owner  string `json:"o"`
	Offer  int64  `json:"d"` // in ms
	Record record `json:"r"`
}

func entryOf(c *locker.Claim) []byte {
	r := recordOf(c)
	r.Fence = c.Fencing
	return encode(entry{
		Owner: c.Owner, Record: r,
		Offer: c.ShortOffer().Milliseconds(), // nobody knows whether its process still lives
	})
}

func ownerValue(owner string, r record) []byte { return append([]byte(owner+"/"), encode(r)...) }

// parse takes the value of an owner node apart. ok is false for the value of a
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

// encode returns JSON of a value that has one.
func encode(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// token returns a block of fencing tokens. Each write has a transaction id of
// its own, and a later one has a higher.
func token(zxid int64) uint64 { return uint64(zxid) * locker.FenceBlock }

// The operations of a transaction.

func (s *settings) create(path string, data []byte, flags int32) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Data: data, Acl: s.acl, Flags: flags}
}

const anyVersion = -1

// noVersion is a version that no node has.
const noVersion = -2

func remove(path string) *zk.DeleteRequest { return removeVersion(path, anyVersion) }

func removeVersion(path string, version int32) *zk.DeleteRequest {
	return &zk.DeleteRequest{Path: path, Version: version}
}

func exists(path string) *zk.CheckVersionRequest { return unchanged(path, anyVersion) }

func unchanged(path string, version int32) *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: path, Version: version}
}

func write(path string, data []byte, version int32) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: path, Data: data, Version: version}
}
