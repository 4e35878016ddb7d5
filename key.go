package guard

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/keyenc"
)

// Key makes a key of its parts: Key("stock", sku) is the key that the
// middleware makes of the template "stock:{sku}". It is the only way to build a
// key from values: '%' and ':' inside a part are escaped, so different parts
// never give the same key.
//
// A part is a [time.Time], an [encoding.TextMarshaler], a [fmt.Stringer], a
// string, an integer or a bool, and is spelled in the first of these ways that
// it has. A time is written in UTC to the nanosecond, so that a moment is one
// part whatever its zone, and whether or not it was stored since; the zero time
// is none. (A type that embeds time.Time has its MarshalText, with the zone:
// pass its UTC().)
//
// Anything else gives "", which every verb refuses with [ErrInvalidKey]: a
// missing value must not become one lock for everybody. So do an empty part, no
// part at all, what is nil, and types with a String that is not their identity:
// a [big.Float], a [context.Context], a [reflect.Value] or [reflect.Type] and a
// protobuf message, of which pass a field.
//
// Each part is one value: Key("stock:"+sku) has a single part, spelled
// stock%3A42, and excludes neither Key("stock", sku) nor the middleware's
// route. Key cannot know an id that was never set, such as 0: Key("order", 0)
// is one lock for all callers that forgot theirs, so check ids first. Nor can
// it know a String that is the same for every value of its type: pass a field
// that tells the values apart.
//
// A key that contains "%!" or "<nil>" is refused with [ErrInvalidKey] too,
// however it was made: that is what package fmt writes for an argument that is
// missing, of another type, or nil, and it is one lock for everybody. Key
// itself never writes "%!", because it escapes '%'. It passes on a part that
// contains "<nil>": where texts from outside may, make a part of their hash.
// Key is safe for concurrent use.
func Key(parts ...any) string {
	var short [64]byte // enough for most keys
	key := short[:0]
	for i, p := range parts {
		part := text(p)
		if part == "" {
			return ""
		}
		if i > 0 {
			key = append(key, ':')
		}
		key = keyenc.Append(key, part)
	}
	return string(key)
}

// maxKey is the length in bytes of the longest key: the store sees a hash of
// what is longer than 200, but here it is kept for each that waits.
const maxKey = 64 << 10

// checkKey refuses a key that no verb may lock.
func checkKey(key string) error {
	if err := checkName(key); err != nil {
		return err
	}
	for _, botched := range []string{"%!", "<nil>"} {
		if strings.Contains(key, botched) {
			return fmt.Errorf("%w: it contains %q, as Sprintf writes it for a bad argument: make keys with guard.Key",
				ErrInvalidKey, botched)
		}
	}
	return nil
}

// checkName refuses what cannot be the key of anybody.
func checkName(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty, as guard.Key makes it of a part that is empty or "+
			"has no spelling", ErrInvalidKey)
	case len(key) > maxKey:
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrInvalidKey, len(key), maxKey)
	}
	return nil
}

// KeyHash returns the short name of a key in telemetry, where the key itself
// would be a leak: the first 12 hexadecimal digits of its SHA-256. So `printf
// %s stock:42 | sha256sum` finds a key that you know in logs and traces. It
// hides a key from a reader, not from somebody who can guess it. KeyHash is
// safe for concurrent use.
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
	case time.Time:
		return moment(p)
	}
	v := reflect.ValueOf(part)
	if isNone(v) {
		return ""
	}
	switch p := part.(type) {
	case *time.Time:
		return moment(*p)
	case *big.Float, context.Context, reflect.Value, reflect.Type, interface{ ProtoMessage() }:
		return ""
	case encoding.TextMarshaler:
		if b, err := p.MarshalText(); err == nil {
			return string(b)
		}
		return ""
	case fmt.Stringer:
		return p.String()
	}
	return plain(v)
}

// isNone reports whether v is nil: many types have a String for that, which
// would be one lock for everybody.
func isNone(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Func, reflect.Chan:
		return v.IsNil()
	}
	return false
}

// moment is the one spelling of a time, in any zone and with or without a
// monotonic reading.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// plain is the spelling of a value by its kind alone.
func plain(v reflect.Value) string {
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
