// Package readahead reads the beginning of a request's body and keeps it for
// later readers.
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

// Body reads r's body ahead, but not far beyond the limit. After that r.Body
// can be read from the start, with the same bytes and the same error at their
// end.
//
// Body returns the bytes that it read, which must not be changed. It also
// returns whether they are the whole body, which is then at most as long as the
// limit. err is the body's own error, if one occurred so early. Body blocks
// until the client has sent the bytes.
//
// Body changes r.Body, so no other goroutine may read r meanwhile. Another call
// reads nothing more.
func Body(r *http.Request) (text []byte, whole bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true, nil
	}
	b, ok := r.Body.(*body)
	switch {
	case !ok:
		b = &body{rest: r.Body, limit: Limit}
	case b.at > 0: // bytes that were read already are missing for later readers too
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
	ahead bool // whether text and end are filled
	text  []byte
	at    int   // the number of bytes that others have read
	end   error // follows text: io.EOF or another error; if nil, rest follows
	rest  io.ReadCloser
}

// fill reads limit bytes from rest and one more, to learn whether there is
// more. size is the announced length, if any.
func (b *body) fill(size int64) {
	b.ahead = true
	first := min(512, b.limit+1)
	if size > 0 && size <= int64(min(b.limit, Limit)) { // do not trust a longer one
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

// Read reads the bytes that were read ahead, and then the rest.
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

// Close closes the original body.
func (b *body) Close() error { return b.rest.Close() }
