package keyfunc

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-lockguard/guard/internal/keyescape"
)

// Func derives a value from a request, or a key if [Join] made it. It returns a
// value that is not empty, or an error. It must be safe for concurrent use. A
// Func that reads the body must leave it to be read again. The methods of Func
// put its value into one form.
type Func func(*http.Request) (string, error)

// Query returns the Func of the query parameter name. A query string that does
// not parse is [ErrInvalid] as a whole, because some readers would lose part of
// it.
func Query(name string) Func {
	return func(r *http.Request) (string, error) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return "", &Error{"query", name, ErrInvalid} // without err, which quotes the query
		}
		return one("query", name, values[name])
	}
}

// Header returns the Func of the header name, in any case. A client can send
// any header, so prefer headers that a gateway sets and strips. Note that
// net/http keeps Host in Request.Host and not in Header.
func Header(name string) Func {
	return func(r *http.Request) (string, error) {
		return one("header", name, r.Header.Values(name))
	}
}

// Cookie returns the Func of the cookie name. Like r.Cookie it removes quotes
// and keeps escapes. Some handlers unescape cookies, as gin's c.Cookie does.
// They need a KeyFrom that does the same.
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
// context. The value is usually the user or tenant that an authentication
// outside the lock has put there. No client can choose it.
//
// If fn reports false or finds an empty value, the authentication is not in
// place and the error is [ErrNoSource]. FromContext panics if fn is nil.
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

// Static returns the Func whose value is always s. It panics if s is empty.
func Static(s string) Func {
	if s == "" {
		panic("keyfunc: Static of an empty string")
	}
	return func(*http.Request) (string, error) { return s, nil }
}

// Join returns the Func of guard.Key(values of the parts...). It stops at the
// first part without a value, with the error of that part. An empty value is
// [ErrMissing]. Join panics if there are no parts or if one is nil.
//
// Join escapes the values of its parts. So a Join inside a Join is one part and
// is escaped twice.
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
			if v == "" { // only from a Func that breaks its contract
				return "", &Error{"part", strconv.Itoa(i + 1), ErrMissing}
			}
			if i > 0 {
				key = append(key, ':')
			}
			key = keyescape.Append(key, v)
		}
		return string(key), nil
	}
}
