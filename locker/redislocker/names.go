package redislocker

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/go-lockguard/guard/internal/keyescape"
	"github.com/go-lockguard/guard/internal/lockerkit"
)

// WithKeyNames guards keys under names in Redis that others already use, for
// the time of a migration. Such users take a name by SET NX with a value of
// their own, as redislock and redsync do. Such users and this locker exclude
// each other.
//
// name is given a key as the verbs take it, with the escapes of guard.Key.
// url.PathUnescape undoes those part by part. name returns the key's name in
// Redis, or "" for the layout of this package. Two keys need two names, and one
// key the same name in every process. name must return at once and be safe for
// concurrent use.
//
// The queue and the fencing counter stay under the prefix, so a user in an ACL
// needs rights for both. Others do not hand over such a name when they release
// it. A waiter finds it free by its next look.
//
// Some keys are refused with [locker.ErrInvalidOption]. A key of more than 200
// bytes is refused, because nobody could tell its name. In a cluster, a key is
// also refused if its queue would not be on the node of its name: if the name
// has a brace but no hash tag. See docs/migrating.md for the steps.
func WithKeyNames(name func(key string) string) Option {
	return given("function of WithKeyNames", name == nil, func(s *settings) { s.raw = name })
}

// names are the names in Redis that a locker gives to its keys.
type names struct {
	prefix  string
	raw     func(key string) string // of WithKeyNames, or nil
	cluster bool

	seed  maphash.Seed
	known [256]atomic.Pointer[knownKey] // by hash of the key
}

func newNames(s *settings, cluster bool) *names {
	return &names{prefix: s.prefix, raw: s.raw, cluster: cluster, seed: maphash.MakeSeed()}
}

// rawName returns the name of key in Redis, or "" if it has none of its own.
func (n *names) rawName(key string) string {
	if n.raw == nil {
		return ""
	}
	plain, ok := keyescape.Key(key)
	if !ok {
		return "" // Check's own, or refused by fits
	}
	return n.raw(plain)
}

// fits returns why a key cannot be used under its name in Redis, or nil.
func (n *names) fits(key string) error {
	if n.raw == nil {
		return nil
	}
	if keyescape.IsHash(key) {
		return invalid("WithKeyNames: a key of more than 200 bytes has no name of its own")
	}
	raw := n.rawName(key)
	if tag := hashTag(raw); n.cluster && tag == raw && strings.ContainsAny(raw, "{}") {
		return invalid("WithKeyNames: in a cluster a name with braces must have a hash tag")
	}
	return nil
}

// keys are the names in Redis of all entries of one key, as arguments of
// commands. All share a hash tag, so they live on one node.
type keys struct{ lock, wait, due, fence, crowd any }

const waitSuffix, dueSuffix, fenceSuffix, crowdSuffix, recordSuffix = ":wait", ":due", ":fence", ":crowd", ":kept"

const inboxSuffix = ":inbox:"

// keys returns the names in Redis of all entries of a key. The guard has made
// the key fit for a hash tag.
func (n *names) keys(key string) keys {
	slot := n.slot(key)
	if last := slot.Load(); last != nil && last.key == key {
		return last.keys
	}
	k := n.make(key)
	slot.Store(&knownKey{key: key, keys: k})
	return k
}

// slot is where key would be known.
func (n *names) slot(key string) *atomic.Pointer[knownKey] {
	return &n.known[maphash.String(n.seed, key)%uint64(len(n.known))]
}

// knownKey is a key with its names. A locker keeps some of them, because the
// keys of a process come back, and each name costs an allocation.
type knownKey struct {
	key string
	keys
	record any // the name of its record, if it had one lately, see remembered
}

func (n *names) make(key string) keys {
	raw, tag, end := n.parts(key)
	begin := n.prefix + ":{"
	// One allocation for all names.
	all := begin + tag + end + waitSuffix + begin + tag + end + dueSuffix + begin + tag + end + fenceSuffix +
		begin + tag + end + crowdSuffix
	lock := len(begin) + len(tag) + len(end)
	wait := lock + len(waitSuffix)
	due := wait + lock + len(dueSuffix)
	fence := due + lock + len(fenceSuffix)
	if raw == "" {
		raw = all[:lock]
	}
	return keys{lock: raw, wait: all[:wait], due: all[wait:due], fence: all[due:fence], crowd: all[fence:]}
}

// parts returns what the names of a key's entries have between the prefix and
// their suffixes: a hash tag, and what follows it. raw is the name of the key
// itself if it has one of its own, or "".
func (n *names) parts(key string) (raw, tag, end string) {
	if raw = n.rawName(key); raw != "" {
		return raw, hashTag(raw), "}:raw:" + key
	}
	return "", key, "}"
}

// lock returns the name of the key itself.
func (n *names) lock(key string) string {
	raw, tag, end := n.parts(key)
	if raw != "" {
		return raw
	}
	return n.prefix + ":{" + tag + end
}

// record returns the name of a key's record, which is the owner id of the
// claim that kept it and the value. A mark is the same behind a markSign.
func (n *names) record(key string) string {
	_, tag, end := n.parts(key)
	return n.prefix + ":{" + tag + end + recordSuffix
}

// noteRecorded remembers that key has a record.
func (n *names) noteRecorded(key string) {
	n.slot(key).Store(&knownKey{key, n.keys(key), n.record(key)})
}

// inbox returns the channel of a locker's inbox.
func (n *names) inbox(instance string) string { return n.prefix + inboxSuffix + instance }

const probeMark = "%probe:"

// probeKey returns a key that no guard ever uses.
func probeKey() string { return probeMark + lockerkit.NewID() }

// hashTag returns the part of a name that decides its node in a cluster.
func hashTag(name string) string {
	if _, left, ok := strings.Cut(name, "{"); ok {
		if tag, _, ok := strings.Cut(left, "}"); ok && tag != "" {
			return tag
		}
	}
	return name
}

// parse returns the key of a name in Redis. ok is false unless the name is
// that of a lock or a queue.
func (n *names) parse(name string) (key string, queue, ok bool) {
	name, ok = strings.CutPrefix(name, n.prefix+":{")
	if !ok {
		return "", false, false
	}
	key, left, ok := strings.Cut(name, "}")
	if !ok || strings.HasPrefix(key, probeMark) || left != "" && left != waitSuffix {
		return "", false, false
	}
	return key, left == waitSuffix, true
}

// pattern is the pattern of names for SCAN.
func (n *names) pattern() string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`).Replace(n.prefix) + ":{*"
}
