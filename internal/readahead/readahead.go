// Package readahead reads the beginning of a request's body without taking it
// away from those who read it later.
package readahead

import (
	"errors"
	"io"
	"net/http"
)

// Limit is the size in bytes of the largest body that is read ahead as a whole,
// unless [SetLimit] says otherwise.
const Limit = 64 << 10

// SetLimit makes n bytes the limit of r's body. Nothing is read yet. It changes
// r.Body.
func SetLimit(r *http.Request, n int) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &body{rest: r.Body, limit: n}
	}
}

// Body reads r's body ahead, but not far beyond the limit, and leaves r.Body to
// be read from the start: the same bytes with the same error at their end. It
// returns what it read, which must not be changed, and whether that is the
// whole body, at most as long as the limit. err is the body's own, if one came
// up so early. It blocks until the client has sent as much.
//
// It changes r.Body, so nobody else may read r meanwhile. Calling it again
// reads nothing more.
func Body(r *http.Request) (text []byte, whole bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true, nil
	}
	b, ok := r.Body.(*body)
	switch {
	case !ok:
		b = &body{rest: r.Body, limit: Limit}
	case b.at > 0: // what has been read is gone for those who read later, too
		b = &body{rest: r.Body, limit: b.limit}
	}
	if !b.ahead {
		b.fill(r.ContentLength)
		r.Body = b
	}
	if ended := errors.Is(b.end, io.EOF); b.end == nil || ended {
		return b.text, ended && len(b.text) <= b.limit, nil
	}
	return b.text, false, b.end
}

// body is a body whose beginning may have been read already.
type body struct {
	limit int
	ahead bool // text and end are filled
	text  []byte
	at    int   // how much has been read by others
	end   error // what follows text: io.EOF or another error; nil: rest
	rest  io.ReadCloser
}

// fill reads limit bytes from rest and one more, to know whether there is more.
// size is the announced length, if any.
func (b *body) fill(size int64) {
	b.ahead = true
	first := min(512, b.limit+1)
	if size > 0 && size <= int64(min(b.limit, Limit)) { // a longer one has to come first
		first = int(size) + 1 // room for the read that finds the end
	}
	b.text = make([]byte, 0, first)
	for b.end == nil && len(b.text) <= b.limit {
		if len(b.text) == cap(b.text) {
			b.text = append(b.text, 0)[:len(b.text)] // grows
		}
		var n int
		n, b.end = b.rest.Read(b.text[len(b.text):min(cap(b.text), b.limit+1)])
		b.text = b.text[:len(b.text)+n]
	}
}

// Read reads what was read ahead, and then the rest.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.at < len(b.text):
		n := copy(p, b.text[b.at:])
		b.at += n
		return n, nil
	case b.end != nil:
		return 0, b.end
	}
	n, err := b.rest.Read(p)
	b.at += n
	return n, err
}

// Close closes the body underneath.
func (b *body) Close() error { return b.rest.Close() }
