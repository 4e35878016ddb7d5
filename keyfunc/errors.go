package keyfunc

import (
	"errors"
	"fmt"
	"strconv"
)

// Why a request gives no key, as sentinels for errors.Is. All but the last are
// the client's doing.
var (
	// ErrMissing says that the value is absent or empty.
	ErrMissing = errors.New("keyfunc: missing")

	// ErrAmbiguous says that the value is there more than once.
	ErrAmbiguous = errors.New("keyfunc: given more than once")

	// ErrInvalid says that the value, or what it would have to be read from, is
	// malformed.
	ErrInvalid = errors.New("keyfunc: malformed")

	// ErrMediaType says that the Content-Type is not one that the value can be
	// read from. It Is ErrInvalid too.
	ErrMediaType = fmt.Errorf("%w: wrong Content-Type", ErrInvalid)

	// ErrTooLarge says that the body is larger than what a value is read from,
	// or than a limit that the application set with [http.MaxBytesReader].
	ErrTooLarge = errors.New("keyfunc: the body is too large")

	// ErrNoSource says that the value can never be there: the route has no
	// parameter of that name, the middleware runs before the router has matched
	// one, or nobody has put the value into the context.
	ErrNoSource = errors.New("keyfunc: no such source")
)

// Error says where in the request a value was looked for and why there is none.
// It never says the value.
type Error struct {
	// "path", "query", "header", "cookie", "form", "json", "body" or "context";
	// "part" or "value" of an own Func
	Source string
	Name   string // of the parameter, header, cookie or field, or the number of the part; "" if there is none
	Err    error  // Is ErrMissing, ErrAmbiguous, ErrInvalid, ErrMediaType, ErrTooLarge or ErrNoSource
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
