package keyfunc

import (
	"errors"
	"fmt"
	"strconv"
)

// These errors say why a request gives no key. Test for them with errors.Is.
// The client causes all of them except ErrNoSource.
var (
	// ErrMissing says that the value is absent or empty.
	ErrMissing = errors.New("keyfunc: missing")

	// ErrAmbiguous says that the value is there more than once.
	ErrAmbiguous = errors.New("keyfunc: given more than once")

	// ErrInvalid says that the value is malformed, or the part of the request
	// that holds it.
	ErrInvalid = errors.New("keyfunc: malformed")

	// ErrMediaType says that the value cannot be read from a body with this
	// Content-Type. It Is ErrInvalid too.
	ErrMediaType = fmt.Errorf("%w: wrong Content-Type", ErrInvalid)

	// ErrTooLarge says that the body is too large to find the value in it. The
	// limit is the package's own, or the one that the application set with
	// [http.MaxBytesReader].
	ErrTooLarge = errors.New("keyfunc: the body is too large")

	// ErrTooManyKeys says that the request has more than 64 distinct keys. Only
	// templates of several keys give it, and lockmw's KeysFunc.
	ErrTooManyKeys = errors.New("keyfunc: more than 64 keys")

	// ErrNoSource says that the value can never be there. The route may have no
	// parameter of that name. The middleware may run before the router has
	// matched one. Or nobody has put the value into the context.
	ErrNoSource = errors.New("keyfunc: no such source")
)

// Error says where in the request a value was looked for and why there is none.
// The text never contains the value.
type Error struct {
	// Source is "path", "query", "header", "cookie", "form", "json", "body" or
	// "context". It is "part" or "value" for a Func of your own, and
	// "idempotency" for the Idempotency-Key of a request, or what is there in
	// its place. Err is then that of the function.
	Source string
	// Name is the name of the parameter, header, cookie or field, or the number
	// of the part. It is "" if there is none.
	Name string
	// Err Is ErrMissing, ErrAmbiguous, ErrInvalid, ErrMediaType, ErrTooLarge or
	// ErrNoSource. For an Idempotency-Key it may be an error of guard.Once.
	Err error
}

func (e *Error) Error() string {
	text := e.Err.Error() + ": " + e.Source
	if e.Name != "" {
		text += " " + strconv.Quote(e.Name)
	}
	return text
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }
