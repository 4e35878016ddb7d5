package httpguard

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/keyfunc"
)

// Keys are the keys of one request. A single key has a field of its own,
// because a slice for each request would be garbage.
type Keys struct {
	one  string
	more []string // nil for one key
}

// One returns the Keys with one key. One passes err on.
func One(key string, err error) (Keys, error) { return Keys{one: key}, err }

// All returns the Keys with each of keys once. All passes err on.
func All(keys []string, err error) (Keys, error) {
	if err != nil {
		return Keys{}, err
	}
	keys, err = keyfunc.Distinct(keys)
	if len(keys) == 1 {
		return One(keys[0], err)
	}
	return Keys{more: keys}, err
}

// do runs fn under the leases of all keys.
func (k Keys) do(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error {
	if k.more == nil {
		return g.Do(ctx, k.one, fn)
	}
	return g.DoAll(ctx, k.more, fn)
}

// Decoded returns a path parameter of a router that decodes some paths and
// others not. sent is whether value is as it was sent. A value that still has
// escapes afterwards is "", as if it was missing: a handler has the same text
// for it and for another path.
func Decoded(value string, sent bool) string {
	if v, err := url.PathUnescape(value); sent && err == nil {
		value = v
	}
	if v, err := url.PathUnescape(value); err == nil && v != value {
		return ""
	}
	return value
}

// list returns the keys.
func (k Keys) list() []string {
	if k.more == nil {
		return []string{k.one}
	}
	return k.more
}

// fromRequest reports whether a refused key is the client's fault, because a
// value from the request is too long. An empty key is not, nor is a key with
// "%!", which comes from a key function that misuses fmt.
func (k Keys) fromRequest() bool {
	return !slices.ContainsFunc(k.list(), func(key string) bool { return key == "" || strings.Contains(key, "%!") })
}

// hash returns the hashes of the keys for a log.
func (k Keys) hash() string {
	var hashes []string
	for _, key := range k.list() {
		hashes = append(hashes, guard.KeyHash(key))
	}
	return strings.Join(hashes, ",")
}
