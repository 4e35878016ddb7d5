package keyfunc

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A step puts a value into one form. An empty result counts as missing.
type step func(v string) (string, error)

// Int returns f with its value read as a decimal integer of 64 bits and written
// in the usual way. So "7", "+7" and "007" are all "7". Anything else is
// [ErrInvalid]. It also says that the handler reads an integer of 64 bits, so
// [JSON] allows all of them.
func (f Func) Int() Func {
	if f == nil {
		panic("keyfunc: normalizer of a nil Func")
	}
	return Func(func(r *http.Request) (string, error) { return exact(f(r)) }).normalized(toInt)
}

// inexact says that a JSON integer may be another one for the handler. It is
// the integer itself.
type inexact string

func (inexact) Error() string {
	return ErrInvalid.Error() + ": an integer beyond 2^53, which many handlers round; the key needs |int"
}

func (inexact) Is(target error) bool { return target == ErrInvalid }

// exact returns the integer that err refuses only because it is inexact.
// Otherwise it returns v and err.
func exact(v string, err error) (string, error) {
	var integer inexact
	if errors.As(err, &integer) {
		return string(integer), nil
	}
	return v, err
}

func toInt(v string) (string, error) {
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(v, "+"), 10, 64)
	if err != nil {
		return "", ErrInvalid
	}
	return strconv.FormatUint(n, 10), nil
}

// UUID returns f with its value read as a UUID and written in the usual way,
// which is 36 characters in lower case. It accepts a UUID in any case, bare, in
// braces, as a URN, or without hyphens. Anything else is [ErrInvalid].
func (f Func) UUID() Func { return f.normalized(toUUID) }

func toUUID(v string) (string, error) {
	const urn = "urn:uuid:"
	switch {
	case len(v) == len(urn)+36 && strings.EqualFold(v[:len(urn)], urn):
		v = v[len(urn):]
	case len(v) == 38 && v[0] == '{' && v[37] == '}':
		v = v[1:37]
	}
	if len(v) == 36 && v[8] == '-' && v[13] == '-' && v[18] == '-' && v[23] == '-' {
		v = v[:8] + v[9:13] + v[14:18] + v[19:23] + v[24:]
	}
	if len(v) != 32 || strings.Trim(v, "0123456789abcdefABCDEF") != "" {
		return "", ErrInvalid
	}
	v = strings.ToLower(v)
	return v[:8] + "-" + v[8:12] + "-" + v[12:16] + "-" + v[16:20] + "-" + v[20:], nil
}

// NonZero returns f with zero values refused as [ErrMissing]. The integer 0 is
// zero in any spelling that [Func.Int] reads, and so is the UUID of zeros. An
// id that was never set has such a value. A key made of it is one lock for all
// callers that forgot to set it.
func (f Func) NonZero() Func { return f.normalized(toNonZero) }

func toNonZero(v string) (string, error) {
	n, _ := toInt(v)
	id, _ := toUUID(v)
	if n == "0" || id == "00000000-0000-0000-0000-000000000000" {
		return "", ErrMissing
	}
	return v, nil
}

// Lower returns f with its value in lower case.
func (f Func) Lower() Func { return f.normalized(toLower) }

func toLower(v string) (string, error) { return strings.ToLower(v), nil }

// Trim returns f with its value without white space at either end. A value of
// white space only is [ErrMissing].
func (f Func) Trim() Func { return f.normalized(toTrimmed) }

func toTrimmed(v string) (string, error) { return strings.TrimSpace(v), nil }

// MaxLen returns f with values of more than n bytes refused as [ErrInvalid]. It
// panics if n is less than 1.
func (f Func) MaxLen(n int) Func {
	if n < 1 {
		panic("keyfunc: MaxLen of less than 1")
	}
	return f.normalized(atMost(n))
}

func atMost(n int) step {
	return func(v string) (string, error) {
		if len(v) > n {
			return "", ErrInvalid
		}
		return v, nil
	}
}

// OneOf returns f with all values refused as [ErrInvalid] except the given
// ones. It panics if none are given.
func (f Func) OneOf(values ...string) Func {
	if len(values) == 0 {
		panic("keyfunc: OneOf of nothing")
	}
	return f.normalized(amongst(slices.Clone(values)))
}

func amongst(values []string) step {
	return func(v string) (string, error) {
		if !slices.Contains(values, v) {
			return "", ErrInvalid
		}
		return v, nil
	}
}

// normalized returns f with its value passed through the step to.
func (f Func) normalized(to step) Func {
	if f == nil {
		panic("keyfunc: normalizer of a nil Func")
	}
	source, name := f.source()
	return func(r *http.Request) (string, error) {
		v, err := f(r)
		if whole, not := exact(v, err); err != nil && not == nil { // an Int may follow
			if _, bad := to.take(whole, source, name); bad != nil {
				err = bad
			}
		}
		if err != nil {
			return "", err
		}
		return to.take(v, source, name)
	}
}

// take passes v through the step. v was found under name in source.
func (to step) take(v, source, name string) (string, error) {
	v, err := to(v)
	if err == nil && v == "" {
		err = ErrMissing
	}
	if err != nil {
		return "", &Error{source, name, err}
	}
	return v, nil
}

// source returns where f looks for its value. It calls f with an empty request
// and reads the source from the error.
func (f Func) source() (source, name string) {
	source = "value"
	defer func() { _ = recover() }()                                  // an own Func may need more than that
	nothing, err := http.NewRequest(http.MethodGet, "/", http.NoBody) //nolint:noctx // it goes nowhere
	if err != nil {
		return source, ""
	}
	_, err = f(nothing)
	var e *Error
	if errors.As(err, &e) {
		return e.Source, e.Name
	}
	return source, ""
}
