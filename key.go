package guard

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"

	"github.com/go-lockguard/guard/internal/keyenc"
)

// Key makes a key of its parts: Key("stock", sku) is the key that the middleware makes of the template "stock:{sku}".
// It is the only way to build a key from values: '%' and ':' inside a part are escaped, so different parts never give
// the same key.
//
// A part is a string, an integer, a bool, a [fmt.Stringer] or an [encoding.TextMarshaler]. Anything else, an empty part
// or no part at all gives "", which every verb refuses with [ErrInvalidKey]: a missing value must not become one lock
// for everybody. Key is safe for concurrent use.
func Key(parts ...any) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = text(p)
	}
	return keyenc.Join(texts...)
}

// maxKey is the length in bytes of the longest key: the store sees a hash of what is longer than 200, but here it is kept
// for each that waits.
const maxKey = 64 << 10

func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	case len(key) > maxKey:
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrInvalidKey, len(key), maxKey)
	}
	return nil
}

// KeyHash returns the short name of a key in telemetry, where the key itself would be a leak: the first 12 hexadecimal
// digits of its SHA-256. So `printf %s stock:42 | sha256sum` finds a key that you know in logs and traces. It hides a key
// from a reader, not from somebody who can guess it. KeyHash is safe for concurrent use.
func KeyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}

// text is the one spelling of a part, "" if it has none.
func text(part any) string {
	switch p := part.(type) {
	case string:
		return p
	case int:
		return strconv.Itoa(p)
	case int64:
		return strconv.FormatInt(p, 10)
	}
	v := reflect.ValueOf(part)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	switch p := part.(type) {
	case fmt.Stringer:
		return p.String()
	case encoding.TextMarshaler:
		if b, err := p.MarshalText(); err == nil {
			return string(b)
		}
		return ""
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10)
	}
	return ""
}
