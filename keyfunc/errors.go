package keyfunc

import (
	"errors"
	"strconv"
)

// Why a request gives no key, as sentinels for errors.Is. The first three are the client's doing, the last one is ours.
var (
	// ErrMissing says that the value is absent or empty.
	ErrMissing = errors.New("keyfunc: missing")

	// ErrAmbiguous says that the value is there more than once.
	ErrAmbiguous = errors.New("keyfunc: given more than once")

	// ErrInvalid says that the value, or what it would have to be read from, is malformed.
	ErrInvalid = errors.New("keyfunc: malformed")

	// ErrNoSource says that the value can never be there: the route has no parameter of that name, or the middleware
	// runs before the router has matched one.
	ErrNoSource = errors.New("keyfunc: the route has no such parameter")
)

// Error says where in the request a value was looked for and why there is none. It never says the value.
type Error struct {
	Source string // "path", "query" or "header"; "part" for an own Func in a Join
	Name   string // of the parameter or header, or the number of the part
	Err    error  // ErrMissing, ErrAmbiguous, ErrInvalid or ErrNoSource
}

func (e *Error) Error() string {
	return e.Err.Error() + ": " + e.Source + " " + strconv.Quote(e.Name)
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }
