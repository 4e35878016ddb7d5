package redislocker

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// keys are the names in Redis of all entries of one key, as arguments of
// commands. They share a hash tag, so they live on one node.
type keys struct{ lock, wait, due, fence, crowd any }

const waitSuffix, dueSuffix, fenceSuffix, crowdSuffix, recordSuffix = ":wait", ":due", ":fence", ":crowd", ":kept"

// keys returns the names in Redis of all entries of a key. The guard has made
// the key fit for a hash tag.
func (l *Locker) keys(key string) keys {
	place := l.place(key)
	if last := place.Load(); last != nil && last.key == key {
		return last.keys
	}
	k := l.newKeys(key)
	place.Store(&knownKey{key: key, keys: k})
	return k
}

// place is where key would be known.
func (l *Locker) place(key string) *atomic.Pointer[knownKey] {
	return &l.known[maphash.String(l.seed, key)%uint64(len(l.known))]
}

// knownKey is a key with its names. A locker keeps some of them, because the keys
// of a process come back, and each name costs an allocation.
type knownKey struct {
	key string
	keys
	record any // the name of its record, if it had one lately, see read
}

func (l *Locker) newKeys(key string) keys {
	if raw := l.rawName(key); raw != "" {
		beside := l.settings.prefix + ":{" + hashTag(raw) + "}:raw:" + key
		return keys{
			lock: raw, wait: beside + waitSuffix, due: beside + dueSuffix, fence: beside + fenceSuffix,
			crowd: beside + crowdSuffix,
		}
	}
	begin, end := l.settings.prefix+":{", "}"
	lock := len(begin) + len(key) + len(end)
	// One allocation for all names.
	all := begin + key + end + waitSuffix + begin + key + end + dueSuffix + begin + key + end + fenceSuffix +
		begin + key + end + crowdSuffix
	wait := lock + len(waitSuffix)
	due := wait + lock + len(dueSuffix)
	fence := due + lock + len(fenceSuffix)
	return keys{lock: all[:lock], wait: all[:wait], due: all[wait:due], fence: all[due:fence], crowd: all[fence:]}
}

// lockName returns the name of the key itself.
func (l *Locker) lockName(key string) string {
	if raw := l.rawName(key); raw != "" {
		return raw
	}
	return l.settings.prefix + ":{" + key + "}"
}

// recordName returns the name of a key's record, which is the owner id of the
// claim that kept it and the value. A mark is the same behind a markSign.
func (l *Locker) recordName(key string) string {
	if raw := l.rawName(key); raw != "" {
		return l.settings.prefix + ":{" + hashTag(raw) + "}:raw:" + key + recordSuffix
	}
	return l.settings.prefix + ":{" + key + "}" + recordSuffix
}

const probeMark = "%probe:"

// probeKey returns a key that no guard ever uses.
func probeKey() string { return probeMark + lockerkit.NewID() }

// hashTag returns the part of a name that decides its node in a cluster.
func hashTag(name string) string {
	if _, rest, ok := strings.Cut(name, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return name
}
