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

	"github.com/go-lockguard/guard/internal/keyescape"
)

// Key makes a key of its parts. Key("stock", sku) is the key that the
// middleware makes of the template "stock:{sku}". Build keys from values only
// with Key. It escapes '%' and ':' inside a part, so different parts never give
// the same key.
//
// A part is a [time.Time], an [encoding.TextMarshaler], a [fmt.Stringer], a
// string, an integer or a bool. It is spelled in the first of these ways that
// it has.
//
// A time is written in UTC to the nanosecond. So a moment is one part in every
// zone, and also after it was stored. The zero time is no part. A type that
// embeds time.Time has its MarshalText, which writes the zone, so pass its
// UTC().
//
// Any other part gives "", which every verb refuses with [ErrInvalidKey]. A
// missing value must not become one lock for everybody. An empty part, a nil
// part and no part at all give "" too. Types with a String that is not their
// identity also give "". These are a [big.Float], a [context.Context], a
// [reflect.Value] or [reflect.Type] and a protobuf message. Pass a field of
// such a message.
//
// Each part is one value. Key("stock:"+sku) has a single part, which is spelled
// stock%3A42. It excludes neither Key("stock", sku) nor the middleware's route.
//
// Key cannot detect an id that was never set, such as 0. Key("order", 0) is one
// lock for all callers that forgot their id, so check ids first. It also cannot
// detect a String that is the same for every value of its type. Pass a field
// that tells the values apart.
//
// Every verb also refuses a key that contains "%!" or "<nil>" with
// [ErrInvalidKey], however it was made. Package fmt writes these for an
// argument that is missing, of another type, or nil. Such a key is one lock for
// everybody. Key itself never writes "%!", because it escapes '%'. It passes on
// a part that contains "<nil>". If texts from outside may contain it, make a
// part of their hash. Key is safe for concurrent use.
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
		key = keyescape.Append(key, part)
	}
	return string(key)
}

// maxKey is the length in bytes of the longest key. The store sees only a hash
// of a key that is longer than 200 bytes. But this process keeps the whole key
// for each call that waits.
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

// checkName refuses a string that cannot be the key of anybody.
func checkName(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty, as guard.Key makes it of a part that is empty or "+
			"has no spelling: check the parts", ErrInvalidKey)
	case len(key) > maxKey:
		return fmt.Errorf("%w: it has %d bytes, more than %d: lock a hash of it", ErrInvalidKey, len(key), maxKey)
	}
	return nil
}

// KeyHash returns the short name of a key in telemetry, where the key itself
// would be a leak. It is the first 12 hexadecimal digits of its SHA-256. So
// `printf %s stock:42 | sha256sum` finds a key that you know in logs and
// traces. The hash hides a key from a reader, but not from a reader who can
// guess it. KeyHash is safe for concurrent use.
func KeyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}

// text returns the one spelling of a part, or "" if it has none.
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

// isNone reports whether v is nil. Many types have a String for nil, which
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

// moment returns the one spelling of a time. It is the same in any zone, and
// with or without a monotonic reading.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// plain returns the spelling of a value by its kind alone.
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

// requestKey is the key by which a leader of key hears requests. The leader
// holds it while it leads, and a request waits for it.
func requestKey(key string) string { return Key("guard", "ask", key) }

// requests begins each request key.
const requests = "guard:ask:"

// isRequestKey reports whether key is a request key, which lists of keys leave
// out: it is about another key, which nobody waits for by it.
func isRequestKey(key string) bool { return strings.HasPrefix(key, requests) }

// storeName returns the name of key in the store.
func storeName(key string) string {
	if keyescape.IsHash(key) {
		return key
	}
	return keyescape.Plain(key)
}
