package zookeeperlocker

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// What stands in ZooKeeper. There are 16 shards, because the answer to a
// listing is limited to 1 MB.
//
//	<root>/k/<shard>/<key>            the row: a head, '\n', the value of package rowlocker
//	<root>/k/<shard>/<key>/h-<gen>    the marker of a row that begins with an owner id; f-<gen> of another
//	<root>/k/<shard>/<key>/q-<owner>  a ticket, which is a claim in the queue; ephemeral
//	<root>/i/<instance>-<slot>        the last message to a process; ephemeral, so also its pulse
//	<root>/v/<id>                     the first part of a value that is too long for a request
//	<root>/j                          who is the janitor
//
// A node's version begins anew with each node. So each node of a row has a
// marker whose name no node had before. Whoever writes the row compares the
// version and the marker. Whoever makes a ticket compares the marker only, so
// that those who come do not conflict with those who hand the key over.
//
// ZooKeeper deletes no node that has children. A row that must not have unknown
// tickets is therefore deleted and made again.
const (
	shards       = 16
	ticketPrefix = "q-"

	held     = 'h' // the state of a row that begins with an owner id
	other    = 'f' // that of another row
	unmarked = 'x' // that of a row whose marker a hand has deleted
	blind    = 'r' // that of a row which is written without a version, and has no marker
	split    = 'R' // the same, of which the first part of the value stands elsewhere
	first    = 'v' // that part
	states   = "hfrRv"
)

func hash(key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return h.Sum32()
}

func (s *settings) shard(n uint32) string { return fmt.Sprintf("%s/k/%x", s.root, n%shards) }

// path returns the node of a row.
func (s *settings) path(key string) string { return s.shard(hash(key)) + "/" + nameOf(key) }

func nameOf(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// keyOf is the reverse of nameOf.
func keyOf(name string) (key string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(name)
	return string(b), err == nil && len(b) > 0
}

func (s *settings) partPath(id string) string { return s.root + "/v/" + id }

func ticketPath(path, owner string) string { return path + "/" + ticketPrefix + owner }

// tag is what a row needs to be written over.
type tag struct {
	state   byte
	gen     string // of the node
	version int32  // of the node
	record  record
}

func (t tag) String() string {
	return fmt.Sprintf("%c%s/%d/%s", t.state, t.gen, t.version, t.record)
}

func parseTag(s string) (t tag, ok bool) {
	gen, rest, ok := strings.Cut(s, "/")
	version, text, _ := strings.Cut(rest, "/")
	if !ok || len(gen) < 2 {
		return t, false
	}
	v, err := strconv.ParseInt(version, 10, 32)
	return tag{gen[0], gen[1:], int32(v), parseRecord(text)}, err == nil
}

// record says which record a row has. Writes of the row that leave the record
// as it is say the same, so that it ends all the same.
type record struct {
	id    string // "": there is none
	lasts time.Duration
}

// left reports whether there is a record that is not over.
func (r record) left() bool { return r.lasts > 0 }

func (r record) String() string { return r.id + "/" + strconv.FormatInt(millis(r.lasts), 10) }

func parseRecord(s string) record {
	id, lasts, _ := strings.Cut(s, "/")
	ms, _ := strconv.ParseInt(lasts, 10, 64)
	return record{id, spanOf(ms)}
}

// millis rounds up.
func millis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

func spanOf(ms int64) time.Duration {
	return time.Duration(min(ms, keepMax.Milliseconds())) * time.Millisecond
}

// markerName is the last name of the marker's path.
func (t tag) markerName() string { return string(t.state) + "-" + t.gen }

func (t tag) marker(path string) string { return path + "/" + t.markerName() }

// stateOf returns the state of a row with that value.
func stateOf(value []byte) byte {
	if len(value) > 0 && value[0] != '/' {
		return held
	}
	return other
}

// head is the first line of a node.
type head struct {
	state byte
	gen   string        // of the node; if its value is split, the id of the first part
	keep  time.Duration // for how long the node means something
	held  time.Duration // for how long the key may be owned; 0: it is not any more

	record record // lasts 0: it is over
}

// keepMax is more than any result is kept.
const keepMax = 2 * locker.MaxRecordTTL

// pack returns the data of a node.
func (h head) pack(value []byte) []byte {
	line := fmt.Appendf(nil, "%c%s %d %d %s\n", h.state, h.gen, h.keep.Milliseconds(), millis(h.held), h.record)
	return append(line, value...)
}

// parse is the reverse of pack. ok is false for the value of a stranger.
func parse(data []byte) (h head, value []byte, ok bool) {
	line, value, _ := bytes.Cut(data, []byte("\n"))
	var name, record string
	var keep, held int64
	n, _ := fmt.Sscanf(string(line), "%s %d %d %s", &name, &keep, &held, &record)
	if n < 4 || !strings.Contains(states, name[:1]) {
		return h, nil, false
	}
	return head{name[0], name[1:], spanOf(keep), spanOf(held), parseRecord(record)}, value, true
}

// message is what stands in a slot of an inbox: a row with its tag, or a ticket
// with its name in place of the tag.
type message struct {
	key, tag string
	value    []byte // nil: too long
}

func (m message) pack() []byte {
	return append(fmt.Appendf(nil, "%s %s\n", nameOf(m.key), m.tag), m.value...)
}

func parseMessage(data []byte) (m message, ok bool) {
	line, value, _ := bytes.Cut(data, []byte("\n"))
	name, tag, _ := strings.Cut(string(line), " ")
	key, ok := keyOf(name)
	return message{key, tag, value}, ok
}
