package redislocker

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// maxTag is the longest key, escaped, that is spelled out in Redis.
const maxTag = 200

// keys are the names in Redis of what belongs to one key. They share a hash tag, so they live on one node.
type keys struct{ lock string }

func (k keys) wait() string  { return k.lock + ":wait" }
func (k keys) fence() string { return k.lock + ":fence" }

func (l *Locker) keys(key string) keys { return l.tagged(tag(key)) }

func (l *Locker) tagged(tag string) keys { return keys{lock: l.settings.prefix + ":{" + tag + "}"} }

// tag escapes key, or hashes what is too long. In an escaped key two hex digits follow each '%', so that it never looks
// like a hash, nor like the key of a probe.
func tag(key string) string {
	if !strings.ContainsFunc(key, func(r rune) bool { return r < 0x80 && special(byte(r)) }) && len(key) <= maxTag {
		return key
	}
	var b strings.Builder
	for i := range len(key) {
		if special(key[i]) {
			fmt.Fprintf(&b, "%%%02X", key[i])
		} else {
			b.WriteByte(key[i])
		}
	}
	if b.Len() <= maxTag {
		return b.String()
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "%sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// special reports whether c is escaped: braces would end the tag, control bytes spoil the output of tools.
func special(c byte) bool { return c < ' ' || c == 0x7f || c == '{' || c == '}' || c == '%' }

func probeTag() string { return "%probe:" + newID() }
