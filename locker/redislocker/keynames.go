package redislocker

import (
	"strings"

	"github.com/go-lockguard/guard/internal/keyenc"
)

// WithKeyNames guards keys under names in Redis that others already use, for
// the time of a migration. Such users take a name by SET NX with a value of
// their own, as redislock and redsync do. They and this locker exclude each other.
//
// name is given a key as the verbs take it, with the escapes of guard.Key.
// url.PathUnescape undoes those part by part. name returns the key's name in
// Redis, or "" for the layout of this package. It must give two keys two names,
// and one key the same name in every process. It must return at once and be
// safe for concurrent use.
//
// The queue and the fencing counter stay under the prefix, so a user in an ACL
// needs rights for both. Others do not hand over such a name when they release
// it. A waiter finds it free by its next look.
//
// Some keys are refused with [locker.ErrInvalidOption]. A key of more than 200
// bytes is refused, because nobody could tell its name. In a cluster, a key is
// also refused if its queue would not be on the node of its name. This is so if
// the name has a brace but no hash tag. See docs/migrating.md for the steps.
func WithKeyNames(name func(key string) string) Option {
	return optionFunc(func(s *settings) { s.raw, s.rawGiven = name, true })
}

// rawName returns the name of key in Redis, or "" if it has none of its own.
func (l *Locker) rawName(key string) string {
	if l.settings.raw == nil {
		return ""
	}
	plain, ok := keyenc.Key(key)
	if !ok {
		return "" // Check's own, or refused by fits
	}
	return l.settings.raw(plain)
}

// fits returns why a key cannot be used under its name in Redis, or nil.
func (l *Locker) fits(key string) error {
	if l.settings.raw == nil {
		return nil
	}
	if keyenc.IsHash(key) {
		return invalid("WithKeyNames: a key of more than 200 bytes has no name of its own")
	}
	raw := l.rawName(key)
	if tag := hashTag(raw); l.conn.Cluster() && tag == raw && strings.ContainsAny(raw, "{}") {
		return invalid("WithKeyNames: in a cluster a name with braces must have a hash tag")
	}
	return nil
}
