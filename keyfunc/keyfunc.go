package keyfunc

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-lockguard/guard/internal/keyenc"
)

// Func derives a value, or with [Join] a key, from a request. It returns an
// error or a value that is not empty, and must be safe for concurrent use. A
// Func that reads the body must leave it to be read again. Its methods put the
// value into one form.
type Func func(*http.Request) (string, error)

// Query returns the Func of the query parameter name. A query string that does
// not parse is [ErrInvalid] as a whole, because part of it would be lost to
// some readers.
func Query(name string) Func {
	return func(r *http.Request) (string, error) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return "", &Error{"query", name, ErrInvalid} // err quotes the query: leave it out
		}
		return one("query", name, values[name])
	}
}

// Header returns the Func of the header name, in any case. A client can send
// what it likes: prefer headers that a gateway sets and strips. Host is not a
// header in net/http.
func Header(name string) Func {
	return func(r *http.Request) (string, error) {
		return one("header", name, r.Header.Values(name))
	}
}

// Cookie returns the Func of the cookie name, as r.Cookie reads it: quotes are
// taken off and escapes are left. A handler that unescapes cookies, as gin's
// c.Cookie does, needs a KeyFrom that does the same.
func Cookie(name string) Func {
	return func(r *http.Request) (string, error) {
		var values []string
		for _, c := range r.CookiesNamed(name) {
			values = append(values, c.Value)
		}
		return one("cookie", name, values)
	}
}

// FromContext returns the Func of a value that fn finds in the request's
// context: the user or tenant that an authentication outside the lock has put
// there, which no client can choose. If fn reports false or finds an empty
// value the authentication is not in place, which is [ErrNoSource]. It panics
// if fn is nil.
func FromContext(fn func(context.Context) (string, bool)) Func {
	if fn == nil {
		panic("keyfunc: FromContext of a nil function")
	}
	return func(r *http.Request) (string, error) {
		if v, found := fn(r.Context()); found && v != "" {
			return v, nil
		}
		return "", &Error{"context", "", ErrNoSource}
	}
}

// one returns the only value.
func one(source, name string, values []string) (string, error) {
	switch {
	case len(values) > 1:
		return "", &Error{source, name, ErrAmbiguous}
	case len(values) == 0 || values[0] == "":
		return "", &Error{source, name, ErrMissing}
	}
	return values[0], nil
}

// Static returns the Func that is always s. It panics if s is empty.
func Static(s string) Func {
	if s == "" {
		panic("keyfunc: Static of an empty string")
	}
	return func(*http.Request) (string, error) { return s, nil }
}

// Join returns the Func of guard.Key(values of the parts...). The first part
// without a value ends it with its error, an empty one with [ErrMissing]. It
// panics if there are no parts or one is nil.
//
// The parts are values, to be escaped: a Join in a Join is one part, escaped
// twice.
func Join(parts ...Func) Func {
	if len(parts) == 0 {
		panic("keyfunc: Join of no parts")
	}
	for _, part := range parts {
		if part == nil {
			panic("keyfunc: Join of a nil part")
		}
	}
	return func(r *http.Request) (string, error) {
		var short [64]byte // enough for most keys
		key := short[:0]
		for i, part := range parts {
			v, err := part(r)
			if err != nil {
				return "", err
			}
			if v == "" { // only a Func that breaks its contract
				return "", &Error{"part", strconv.Itoa(i + 1), ErrMissing}
			}
			if i > 0 {
				key = append(key, ':')
			}
			key = keyenc.Append(key, v)
		}
		return string(key), nil
	}
}
