package httpguard

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/readahead"
	"github.com/go-lockguard/guard/keyfunc"
)

// Identity decides which requests are the same one. R is a request as its
// functions see it. Identity is safe for concurrent use.
type Identity[R any] struct {
	IdentityOptions[R]

	Scope  func(R) (string, error)
	Header func(R) []string        // the values of the header Idempotency-Key
	Whole  func(R) ([]byte, error) // the fingerprint of all of a request
}

// IdentityOptions are what users choose of an Identity.
type IdentityOptions[R any] struct {
	Key      func(R) (string, error)   // nil: that of the header
	Values   []func(R) (string, error) // they make the fingerprint; nil: Whole does
	Optional bool                      // requests without a key pass
}

// KeyAlone lets nothing but scope and key tell requests apart.
func (o *IdentityOptions[R]) KeyAlone() { o.Values = []func(R) (string, error){} }

// Values returns the functions of a fingerprint, each made by of. Values panics
// without a function.
func Values[F, R any](functions []F, of func(F) func(R) (string, error)) []func(R) (string, error) {
	PanicIf(len(functions) == 0, "WithFingerprint without a function. If you mean that, use WithoutFingerprint")
	values := make([]func(R) (string, error), len(functions))
	for i, f := range functions {
		values[i] = of(f)
	}
	return values
}

// ValueBy returns f for an exchange. ValueBy panics if f is nil.
func ValueBy(f keyfunc.Func) func(HeldExchange) (string, error) {
	PanicIf(f == nil, NilKeyFunc)
	return func(x HeldExchange) (string, error) { return x.Value(f) }
}

// ErrPasses says that a request has no key and needs none.
var ErrPasses = errors.New("lockmw: the request has no idempotency key, and passes")

// Of returns the guard's key for r, and the fingerprint of r. Of blocks as the
// functions do.
func (i *Identity[R]) Of(r R) (key string, fingerprint []byte, err error) {
	name, err := i.name(r)
	if err != nil {
		return "", nil, err
	}
	if i.Values != nil {
		fingerprint, err = i.chosen(r)
	}
	if err != nil {
		return "", nil, err
	}
	scope, err := i.Scope(r)
	if err != nil {
		return "", nil, noLock(err)
	}
	if scope == "" {
		return "", nil, fmt.Errorf("%w: the scope is empty", guard.ErrInvalidKey)
	}
	if i.Values == nil {
		fingerprint, err = i.Whole(r)
	}
	return guard.Key("idempotent", scope, name), fingerprint, err
}

// noLock returns an error of keyfunc as that of a value which is not for the
// key of a lock.
func noLock(err error) error {
	if at := (*keyfunc.Error)(nil); errors.As(err, &at) {
		return errnote.With(err, errnote.NoLock(true))
	}
	return err
}

// keyHeader is the header that names a request, in its canonical form.
const keyHeader = "Idempotency-Key"

// maxKey is the max length of a key of a client.
const maxKey = 255

// name returns the client's key.
func (i *Identity[R]) name(r R) (string, error) {
	if i.Key == nil {
		values := i.Header(r)
		if i.Optional && len(values) == 0 {
			return "", ErrPasses
		}
		name, err := headerKey(values)
		if err != nil {
			return "", BlameKey(err)
		}
		return name, nil
	}
	name, err := i.Key(r)
	switch {
	case err == nil && name == "":
		err = keyfunc.ErrMissing
	case err == nil && len(name) > maxKey:
		err = keyfunc.ErrInvalid
	}
	switch {
	case err == nil:
		return name, nil
	case i.Optional && errors.Is(err, keyfunc.ErrMissing):
		return "", ErrPasses
	case errors.Is(err, keyfunc.ErrMediaType):
	case errors.Is(err, keyfunc.ErrMissing), errors.Is(err, keyfunc.ErrAmbiguous), errors.Is(err, keyfunc.ErrInvalid):
		err = &keyfunc.Error{Source: "idempotency", Err: err}
	}
	return "", err
}

// chosen returns a hash of the values that the user has chosen, nil for none.
// No two lists of values have the same text.
func (i *Identity[R]) chosen(r R) ([]byte, error) {
	var text []byte
	for _, value := range i.Values {
		v, err := value(r)
		if err != nil {
			return nil, noLock(err)
		}
		text = append(binary.AppendUvarint(text, uint64(len(v))), v...)
	}
	if text == nil {
		return nil, nil
	}
	sum := sha256.Sum256(text)
	return sum[:16], nil
}

// headerKey returns the client's key, of all values of its header. Quotes
// around it do not belong to it.
func headerKey(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", keyfunc.ErrMissing
	case 1:
	default:
		return "", keyfunc.ErrAmbiguous
	}
	name := values[0]
	if n := len(name); n >= 2 && name[0] == '"' && name[n-1] == '"' {
		name = name[1 : n-1]
	}
	hidden := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case name == "":
		return "", keyfunc.ErrMissing
	case len(name) > maxKey, strings.ContainsFunc(name, hidden):
		return "", keyfunc.ErrInvalid
	}
	return name, nil
}

// BlameKey returns err as one that a client's key has caused.
func BlameKey(err error) error {
	return &keyfunc.Error{Source: "idempotency", Name: keyHeader, Err: err}
}

// wholeRequest returns a hash of the method, host, path, query, media type and
// body of the request of x. None but the body has a line break. wholeRequest
// blocks until the whole body is there.
func wholeRequest(x HeldExchange) ([]byte, error) {
	r := x.Request()
	body, whole, err := readahead.Body(r)
	switch {
	case err != nil:
		return nil, &keyfunc.Error{Source: "body", Err: fmt.Errorf("%w: %w", keyfunc.ErrInvalid, err)}
	case !whole:
		return nil, &keyfunc.Error{Source: "body", Err: keyfunc.ErrTooLarge}
	}
	h := sha256.New()
	_, _ = io.WriteString(h, r.Method+"\n"+hostname(r)+"\n"+r.URL.EscapedPath()+"\n"+r.URL.RawQuery+"\n")
	if len(body) > 0 {
		_, _ = io.WriteString(h, mediaType(r)+"\n")
	}
	_, _ = h.Write(body)
	return h.Sum(nil)[:16], nil
}

// hostname returns the host that the client has asked, without the port, which
// may be that of one instance.
func hostname(r *http.Request) string {
	return strings.ToLower((&url.URL{Host: r.Host}).Hostname())
}

// mediaType returns the media type of r's body without its parameters, which
// say nothing that the body does not.
func mediaType(r *http.Request) string {
	given := strings.Join(r.Header.Values("Content-Type"), ", ")
	if media, _, err := mime.ParseMediaType(given); err == nil {
		return media
	}
	return given
}
