// Package lockerkit has what every store of leases needs: ids, errors about
// settings, and the life of a Locker from Open to Close. The engine and the root
// package use some of it.
package lockerkit

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// NewID returns locker.OwnerLen random base64url characters, which are 128
// bits. They serve as an owner id, or as the id of an instance. The first is
// never a '-': package etcdlocker sorts owner ids behind the marks of rows that
// nobody owns.
func NewID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		var text [locker.OwnerLen]byte
		base64.RawURLEncoding.Encode(text[:], b[:])
		if text[0] != '-' {
			return string(text[:])
		}
	}
}

// Describe returns the text of c's Holder for a store that keeps JSON. It signs
// c, once, with the id of an instance.
func Describe(c *locker.Claim, instance string) []byte {
	if c.Holder.Instance == "" {
		c.Holder.Instance = instance
	}
	h := c.Holder
	text, err := json.Marshal(h)
	if err != nil { // a year beyond 9999
		h.Since = time.Time{}
		text, _ = json.Marshal(h)
	}
	return text
}

// HolderOf returns the Holder that Describe has written. The text of a stranger
// describes nobody.
func HolderOf(text []byte) (h locker.Holder) {
	if json.Unmarshal(text, &h) != nil {
		return locker.Holder{}
	}
	return h
}

// IsNil reports whether v is nil, or an interface that holds a nil pointer.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

const rememberMax = 10_000

// MakeRoom forgets some of a map by key that has grown too large.
func MakeRoom[V any](m map[string]V) {
	for k := range m {
		if len(m) < rememberMax {
			return
		}
		delete(m, k)
	}
}

// Invalid returns an ErrInvalidOption of the package that is named store.
func Invalid(store, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", locker.ErrInvalidOption, store, fmt.Sprintf(format, args...))
}

// ReadOnly says what to do about a server that takes no writes.
const ReadOnly = "the server answered, but it takes no writes, as a replica or an old primary does: " +
	"the address must lead to the primary; the connection is closed, so that the next request finds a new one"

// Silent reports whether the err of a network says that a server gave no answer:
// nobody listens, or nothing came in time. Somebody has broken a connection that
// breaks.
func Silent(err error) bool {
	const windows = syscall.Errno(10061) // WSAECONNREFUSED
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, windows) || TimedOut(err)
}

// TimedOut reports whether err is a timeout, as that of a net.Error or a
// context can be.
func TimedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
