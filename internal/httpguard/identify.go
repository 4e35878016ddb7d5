package httpguard

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/readahead"
	"github.com/go-lockguard/guard/keyfunc"
)

// keyHeader is the header that names a request, in its canonical form.
const keyHeader = "Idempotency-Key"

// maxKey is the max length of a key of a client.
const maxKey = 255

// identify returns the guard's key for the request of x, and the fingerprint of
// the request. identify blocks until the whole body is there.
func (i *Idempotent) identify(x Exchange) (key string, fingerprint []byte, err error) {
	name, err := IdempotencyKey(x.Request().Header[keyHeader])
	if err != nil {
		return "", nil, err
	}
	scope, err := x.Keys()
	if err != nil {
		return "", nil, err
	}
	if scope.one == "" {
		return "", nil, fmt.Errorf("%w: the scope is empty", guard.ErrInvalidKey)
	}
	fingerprint, err = fingerprintOf(x.Request())
	return IdempotentKey(scope.one, name), fingerprint, err
}

// IdempotentKey returns the guard's key for a client's key.
func IdempotentKey(scope, name string) string { return guard.Key("idempotent", scope, name) }

// IdempotencyKey returns the client's key, of all values of its header. Quotes
// around it do not belong to it.
func IdempotencyKey(values []string) (string, error) {
	bad := func(err error) (string, error) { return "", BlameKey(err) }
	switch len(values) {
	case 0:
		return bad(keyfunc.ErrMissing)
	case 1:
	default:
		return bad(keyfunc.ErrAmbiguous)
	}
	name := values[0]
	if n := len(name); n >= 2 && name[0] == '"' && name[n-1] == '"' {
		name = name[1 : n-1]
	}
	hidden := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case name == "":
		return bad(keyfunc.ErrMissing)
	case len(name) > maxKey, strings.ContainsFunc(name, hidden):
		return bad(keyfunc.ErrInvalid)
	}
	return name, nil
}

// BlameKey returns err as one that a client's key has caused.
func BlameKey(err error) error {
	return &keyfunc.Error{Source: "idempotency", Name: keyHeader, Err: err}
}

// fingerprintOf returns a hash of the method, path, query and body of r. None
// of the first three has a line break.
func fingerprintOf(r *http.Request) ([]byte, error) {
	body, whole, err := readahead.Body(r)
	switch {
	case err != nil:
		return nil, &keyfunc.Error{Source: "body", Err: fmt.Errorf("%w: %w", keyfunc.ErrInvalid, err)}
	case !whole:
		return nil, &keyfunc.Error{Source: "body", Err: keyfunc.ErrTooLarge}
	}
	h := sha256.New()
	_, _ = io.WriteString(h, r.Method+"\n"+r.URL.EscapedPath()+"\n"+r.URL.RawQuery+"\n")
	_, _ = h.Write(body)
	return h.Sum(nil)[:16], nil
}
