package keyescape

import (
	"crypto/sha256"
	"encoding/base64"
)

// MaxPlain is the longest name that Plain returns.
const MaxPlain = 200

// Plain returns the name of key in a store. That is key with control bytes,
// braces and '%' escaped. If the escaped key is longer than MaxPlain, the name
// is a hash of it.
//
// Two keys never have the same name. Two hexadecimal digits follow each '%' of
// an escaped key, so it never looks like a hash.
func Plain(key string) string {
	n := len(key)
	for i := range len(key) {
		if special(key[i]) {
			n += 2
		}
	}
	if n == len(key) && n <= MaxPlain {
		return key
	}
	b := make([]byte, 0, n)
	for i := range len(key) {
		if c := key[i]; special(c) {
			b = append(b, '%', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	if n <= MaxPlain {
		return string(b)
	}
	sum := sha256.Sum256(b)
	return hashMark + base64.RawURLEncoding.EncodeToString(sum[:])
}

const digits = "0123456789ABCDEF"

// special reports whether Plain escapes c. Braces would end the hash tag of a
// cluster. Control bytes would spoil the output of tools.
func special(c byte) bool { return c < ' ' || c == 0x7f || c == '{' || c == '}' || c == '%' }
