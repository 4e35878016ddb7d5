package redislocker

import (
	"strings"

	"github.com/go-lockguard/guard/internal/keyenc"
)

// WithRawKeys lets keys be guarded under names in Redis that others use
// already, for the time of a migration: who takes such a name by SET NX with a
// value of its own, as redislock and redsync do, and this locker exclude each
// other. name is given a key as the verbs take it, with the escapes of
// guard.Key, which url.PathUnescape undoes part by part. It returns its name in
// Redis, or "" for the layout of this package. It must give two keys two names
// and one key the same name in every process, return at once, and be safe for
// concurrent use.
//
// The queue and the fencing counter stay under the prefix, so a user in an ACL
// needs rights for both. Others who release such a name do not hand it over: a
// waiter finds it free by its next look. A key of more than 200 bytes, whose
// name nobody could tell, is refused with [locker.ErrInvalidOption]; so is, in
// a cluster, a name whose queue would not be on its node: one without a hash
// tag but with a brace in it. See docs/migrating.md for the steps.
func WithRawKeys(name func(key string) string) Option {
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

// fits returns why a key cannot be used under the name that it would have, or
// nil.
func (l *Locker) fits(key string) error {
	if l.settings.raw == nil {
		return nil
	}
	if keyenc.IsHash(key) {
		return invalid("WithRawKeys: a key of more than 200 bytes has no name of its own")
	}
	raw := l.rawName(key)
	if tag := hashTag(raw); l.cluster != nil && tag == raw && strings.ContainsAny(raw, "{}") {
		return invalid("WithRawKeys: in a cluster a name with braces must have a hash tag")
	}
	return nil
}
